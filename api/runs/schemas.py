"""Shapes of runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api.schemas import EXAMPLE_ID, Output
from core.types import Mode, RunKind, RunStatus


class Run(Output):
    """One request with all its resumptions."""

    id: str = Field(examples=[EXAMPLE_ID])
    session_id: str
    kind: RunKind
    status: RunStatus
    agent: str
    model: str
    mode: Mode
    trace_id: str
    attempt: int
    last_seq: int = Field(description="Number of the last event.")
    error_code: str | None
    error_message: str | None
    usage: dict[str, Any]
    context_tokens: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
