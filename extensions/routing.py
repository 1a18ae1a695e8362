"""What routes of extensions need: one of these as a parameter states who may call.

    router = APIRouter()

    @router.get("/words")
    async def words(who: AgentsReader) -> list[str]: ...

It is given the caller, and anybody without the permission is refused before the body is read.
"""

from __future__ import annotations

from api.schemas import Input, Output
from api.security import AgentsReader, AgentsWriter, ChatReader, ChatWriter, PreferencesOwner
from core.principal import Principal

__all__ = [
    "AgentsReader",
    "AgentsWriter",
    "ChatReader",
    "ChatWriter",
    "Input",
    "Output",
    "PreferencesOwner",
    "Principal",
]
