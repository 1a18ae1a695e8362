"""What a user wants every agent to know (CHAT-27)."""

from __future__ import annotations

from core.principal import Principal
from storage.database import Database


class Preferences:
    """One text per user, put into the prompt of every turn."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, principal: Principal) -> str | None:
        """Return the text, or none."""
        async with self._database.work() as work:
            data = await work.preferences.get(principal)
        return None if data is None else str(data.get("text", ""))

    async def put(self, principal: Principal, text: str) -> None:
        """Replace the text."""
        async with self._database.work() as work:
            await work.preferences.put(principal, {"text": text})

    async def delete(self, principal: Principal) -> None:
        """Remove the text."""
        async with self._database.work() as work:
            await work.preferences.delete(principal)
