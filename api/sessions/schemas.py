"""Shapes of sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from api.schemas import EXAMPLE_ID, Input, Output
from core.types import Mode

LONGEST_TITLE = 200


class Session(Output):
    """One conversation."""

    id: str = Field(examples=[EXAMPLE_ID])
    title: str
    title_source: str = Field(description="`cut` from the first text, `model` made, or `user` set.")
    agent: str
    project_id: str
    mode: Mode
    model: str | None
    thinking: str | None
    pinned_at: datetime | None
    created_at: datetime
    updated_at: datetime


class Found(Session):
    """A session that fits a search."""

    snippet: str | None = Field(
        default=None, description="The place in a message that fits; null where the title does."
    )


class PinBody(Input):
    """Whether a session stands at the top."""

    pinned: bool


class TitleBody(Input):
    """A session's new title."""

    title: Annotated[str, Field(min_length=1, max_length=LONGEST_TITLE, pattern=r"\S")]


class ModeBody(Input):
    """How the session's next runs work."""

    mode: Mode


class SessionMode(Output):
    """How the session's next runs work."""

    id: str
    mode: Mode


class Context(Output):
    """What fills the model's window, and what summarising took out of it."""

    id: str
    tokens: int = Field(description="Size of the last request to the model.")
    limit: int = Field(description="Tokens that fit.")
    parts: dict[str, int] = Field(
        description="Estimated tokens of `system`, `tools`, `memory`, `history`, `files`."
    )
    usage_source: str
    archives: list[dict[str, Any]]
