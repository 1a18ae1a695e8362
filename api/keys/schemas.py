"""Shapes of API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from api.schemas import EXAMPLE_ID, Input, Output
from core.principal import Permission


class KeyBody(Input):
    """What a new key shall be."""

    name: Annotated[str, Field(min_length=1, max_length=100, examples=["report script"])]
    permissions: list[Permission] | None = Field(
        default=None, max_length=50, description="Missing: all that you may."
    )
    days: Annotated[int, Field(ge=1, le=3650)] | None = Field(
        default=None, description="How long it holds; missing: until it is revoked."
    )
    service: bool = Field(
        default=False, description="Whether it may act for other users of the workspace."
    )


class Key(Output):
    """An API key, without its secret."""

    id: str = Field(examples=[EXAMPLE_ID])
    name: str
    prefix: str = Field(description="The key begins with `gwk_<prefix>_`.")
    user_name: str
    permissions: list[str]
    service: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewKey(Key):
    """A key with its text, which is shown this once and kept nowhere."""

    key: str
