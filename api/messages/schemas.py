"""Shapes of messages: feedback and whole tool results. The message itself is in `api.chat`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from api.schemas import Input, Output


class FeedbackBody(Input):
    """What a user thinks of an answer; null takes it back."""

    feedback: Literal["up", "down"] | None
    note: Annotated[str, Field(max_length=4_000)] | None = None


class ToolResult(Output):
    """The whole stored result of one tool call."""

    id: str = Field(description="The tool call's id.")
    message_id: str
    session_id: str
    run_id: str
    tool: str
    status: str = Field(description="`completed`, `failed`, `denied`, `timeout` or `cancelled`.")
    content: str
    error: str | None
    duration_ms: int
    created_at: datetime
