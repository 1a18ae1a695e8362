"""Tables of runs: journal, questions, usage, owners."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field

from storage.tables.base import Base, count, data, made_at, moment, of, words


class Runs(Base, table=True):
    """Requests with all their resumptions."""

    id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = of("users")
    session_id: str = of("sessions")
    kind: str = words()
    status: str = words()
    agent: str = words()
    model: str = words()
    mode: str = words()
    trace_id: str = words()
    attempt: int = Field(sa_column_kwargs={"server_default": text("0")})
    takeovers: int = Field(sa_column_kwargs={"server_default": text("0")})
    owner_id: str | None = words(nullable=True)
    last_seq: int = count()
    input: dict[str, Any] = data()
    on_disconnect: str = words()
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": text("false")})
    error_code: str | None = words(nullable=True)
    error_message: str | None = words(nullable=True)
    usage: dict[str, Any] = data("'{}'")
    context_tokens: int = count()
    created_at: datetime = moment()
    started_at: datetime | None = moment(nullable=True)
    finished_at: datetime | None = moment(nullable=True)

    __table_args__ = (
        Index("ix_runs_session", "session_id", text("created_at DESC"), text("id DESC")),
        # One active run per session, whatever any process believes (EXEC-30).
        Index(
            "uq_runs_active_session",
            "session_id",
            unique=True,
            postgresql_where=text("status IN ('queued', 'running', 'waiting_input')"),
        ),
        Index(
            "ix_runs_going",
            "status",
            "workspace_id",
            "user_id",
            "created_at",
            postgresql_where=text("status IN ('queued', 'running')"),
        ),
    )


class RequestKeys(Base, table=True):
    """Keys of requests that were carried out. They outlive the session (CHAT-04)."""

    workspace_id: str = words(primary_key=True)
    user_id: str = of("users", primary_key=True)
    request_id: str = words(primary_key=True)
    session_id: str = words()
    run_id: str = words()
    created_at: datetime = made_at()


class RunEvents(Base, table=True):
    """The journal. No foreign key: it is the hottest table, and only runs' deletion empties it."""

    run_id: str = words(primary_key=True)
    seq: int = Field(sa_type=BigInteger, primary_key=True)
    workspace_id: str = words()
    user_id: str = words()
    at: datetime = moment()
    data: dict[str, Any] = data()


class Interrupts(Base, table=True):
    """Questions to people."""

    id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = words()
    session_id: str = of("sessions")
    run_id: str = words()
    token: str = words(unique=True)
    kind: str = words()
    card: dict[str, Any] = data()
    graph_interrupt_id: str = words()
    checkpoint_id: str = words()
    status: str = words()
    decisions: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB(none_as_null=True)))
    resolved_by: str | None = words(nullable=True)
    created_at: datetime = moment()
    resolved_at: datetime | None = moment(nullable=True)

    __table_args__ = (
        Index(None, "run_id"),
        Index(
            "uq_interrupts_pending",
            "session_id",
            unique=True,
            postgresql_where=text("status = 'pending'"),
        ),
    )


class UsageEvents(Base, table=True):
    """Tokens of model calls. When a session is deleted they stay, without its name."""

    id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = of("users")
    session_id: str | None = words(nullable=True)
    run_id: str | None = words(nullable=True)
    agent: str = words()
    model: str = words()
    purpose: str = words()
    input_tokens: int = count()
    output_tokens: int = count()
    cached_tokens: int = count()
    reasoning_tokens: int = count()
    usage_source: str = words()
    created_at: datetime = moment()

    __table_args__ = (
        Index(None, "run_id"),
        Index(None, "session_id"),
        Index(None, "workspace_id", "user_id", "created_at"),
    )


class ToolJournal(Base, table=True):
    """Calls that may change something: that they began, and how they ended."""

    run_id: str = of("runs", primary_key=True)
    call_id: str = words(primary_key=True)
    tool: str = words()
    starts: int
    mark: str = words()
    started_at: datetime = moment()
    ended_at: datetime | None = moment(nullable=True)
    type: str | None = words(nullable=True)
    blob: bytes | None = None


class Owners(Base, table=True):
    """Processes that carry out runs."""

    id: str = words(primary_key=True)
    kind: str = words()
    host: str = words()
    pid: int
    started_at: datetime = moment()
    beat_at: datetime = moment()


class EncryptionKeys(Base, table=True):
    """Names of the keys with which something may be sealed."""

    id: str = words(primary_key=True)
    created_at: datetime = made_at()


class LibraryVersions(Base, table=True):
    """How far the tables that libraries bring have come."""

    library: str = words(primary_key=True)
    version: str = words()
    detail: str = words()
