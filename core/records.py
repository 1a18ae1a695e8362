"""Rows as the rest of the product sees them; the tables themselves are private to storage."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.types import (
    InterruptKind,
    InterruptStatus,
    MessageStatus,
    Mode,
    RunKind,
    RunStatus,
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One conversation."""

    id: str
    workspace_id: str
    user_id: str
    project_id: str
    agent: str
    title: str
    title_source: str
    """`cut` (first text), `model`, or `user`."""
    mode: Mode
    model: str | None
    thinking: str | None
    pinned_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One request with all its resumptions."""

    id: str
    workspace_id: str
    user_id: str
    session_id: str
    kind: RunKind
    status: RunStatus
    agent: str
    model: str
    mode: Mode
    trace_id: str
    attempt: int
    owner_id: str | None
    last_seq: int
    input: dict[str, Any]
    """What the next drive of the graph begins with: `{"message": {…}}` or `{"resume": {…}}`."""
    on_disconnect: str
    cancel_requested: bool
    error_code: str | None
    error_message: str | None
    usage: dict[str, Any]
    context_tokens: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    user_name: str = ""
    takeovers: int = 0
    """How often it was taken from a dead owner; `attempt` counts every claim."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One visible message. `parts` are `{"type": "text"|"thinking"|"tool_call"|"file"|"skill"|"error", …}`."""

    id: str
    session_id: str
    run_id: str | None
    position: int
    role: str
    """`user` or `assistant`."""
    parts: list[dict[str, Any]]
    status: MessageStatus
    created_at: datetime
    feedback: str | None = None
    feedback_note: str | None = None
    parent_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResultRecord:
    """The whole result of one tool call, beside the message that asked for it."""

    session_id: str
    run_id: str
    message_id: str
    tool_call_id: str
    tool: str
    status: str
    """`completed`, `failed`, `denied`, `timeout` or `cancelled`."""
    content: str
    error: str | None
    duration_ms: int
    created_at: datetime
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InterruptRecord:
    """A question to a person, bound to the place in the graph that asked it."""

    id: str
    workspace_id: str
    user_id: str
    session_id: str
    run_id: str
    token: str
    kind: InterruptKind
    card: dict[str, Any]
    """The `interrupt` event as JSON."""
    graph_interrupt_id: str
    checkpoint_id: str
    status: InterruptStatus
    decisions: list[dict[str, Any]] | None
    resolved_by: str | None
    created_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """Tokens of one model call."""

    id: str
    workspace_id: str
    user_id: str
    session_id: str
    run_id: str | None
    agent: str
    model: str
    purpose: str
    """`turn`, `summary`, `review`, `title`."""
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    usage_source: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """One summarisation: what was taken out of the model's view and where it is kept."""

    id: str
    session_id: str
    run_id: str
    path: str
    summary: str
    messages: int
    tokens_before: int
    tokens_after: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key; the secret itself is not kept."""

    id: str
    workspace_id: str
    user_id: str
    user_name: str
    name: str
    prefix: str
    permissions: list[str]
    service: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A person or service of a workspace."""

    id: str
    workspace_id: str
    name: str
    role: str
    disabled_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """A process that carries out runs, alive as long as it beats."""

    id: str
    kind: str
    host: str
    pid: int
    started_at: datetime
    beat_at: datetime
