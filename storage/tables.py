"""The tables. Private to this room: other rooms see `core.records` and the repositories.

Ids are UUIDs as text (`core.ids`). Every table that holds user data carries workspace and user.
The library tables (checkpoints, procrastinate) are not here: see `storage/library_schema.py`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import BigInteger, Column, DateTime, Index, MetaData, Table, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Base(SQLModel):
    """Base of our tables, apart from those of extensions."""

    metadata: ClassVar[MetaData] = metadata  # type: ignore[misc]


def _text(**options: Any) -> Any:
    return Field(sa_type=Text, **options)


def _time(**options: Any) -> Any:
    # sa_type wants a class; the zone is given where the column is made.
    return Field(sa_type=DateTime(timezone=True), **options)  # type: ignore[call-overload]


def _made_at() -> Any:
    return _time(sa_column_kwargs={"server_default": func.now()})


def _json(default: str | None = None) -> Any:
    options: dict[str, Any] = {"server_default": text(default)} if default else {}
    return Field(sa_type=JSONB, sa_column_kwargs=options)


def _count() -> Any:
    return Field(sa_type=BigInteger, sa_column_kwargs={"server_default": text("0")})


def _of(name: str, **options: Any) -> Any:
    """Return a column that names a row of another table and goes with it."""
    return _text(foreign_key=f"{name}.id", ondelete="CASCADE", **options)


class Workspaces(Base, table=True):
    """Tenants."""

    id: str = _text(primary_key=True)
    name: str = _text(unique=True)
    created_at: datetime = _made_at()


class Users(Base, table=True):
    """People and services. The workspace is the one they were made in; names are its own."""

    id: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    name: str = _text()
    disabled_at: datetime | None = _time(nullable=True)
    created_at: datetime = _made_at()

    __table_args__ = (Index("uq_users_name", "workspace_id", "name", unique=True),)


class Memberships(Base, table=True):
    """Who belongs to which workspace, as what."""

    workspace_id: str = _of("workspaces", primary_key=True)
    user_id: str = _of("users", primary_key=True)
    role: str = _text()
    created_at: datetime = _made_at()


class ApiKeys(Base, table=True):
    """API keys; the secret is there as a hash only."""

    __tablename__ = "api_keys"

    id: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    name: str = _text()
    prefix: str = _text(unique=True)
    secret_hash: str = _text()
    permissions: list[str] = _json()
    service: bool = False
    created_at: datetime = _made_at()
    expires_at: datetime | None = _time(nullable=True)
    revoked_at: datetime | None = _time(nullable=True)
    last_used_at: datetime | None = _time(nullable=True)

    __table_args__ = (Index(None, "workspace_id", "user_id"),)


class WebSessions(Base, table=True):
    """Browser sessions, by the hash of their cookie."""

    __tablename__ = "web_sessions"

    hash: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    created_at: datetime = _made_at()
    expires_at: datetime = _time()
    revoked_at: datetime | None = _time(nullable=True)

    __table_args__ = (Index(None, "user_id"),)


class LoginLinks(Base, table=True):
    """One-time links, by the hash of their token."""

    __tablename__ = "login_links"

    hash: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    created_at: datetime = _made_at()
    expires_at: datetime = _time()
    used_at: datetime | None = _time(nullable=True)


class Projects(Base, table=True):
    """Folders that sessions share; without a name it belongs to one session."""

    id: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    name: str | None = _text(nullable=True)
    created_at: datetime = _made_at()

    __table_args__ = (Index("uq_projects_name", "workspace_id", "user_id", "name", unique=True),)


class Sessions(Base, table=True):
    """Conversations."""

    id: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    project_id: str = _text(foreign_key="projects.id")
    agent: str = _text()
    title: str = _text()
    title_source: str = _text()
    mode: str = _text()
    model: str | None = _text(nullable=True)
    thinking: str | None = _text(nullable=True)
    pinned_at: datetime | None = _time(nullable=True)
    next_position: int = _count()
    created_at: datetime = _time()
    updated_at: datetime = _time()

    __table_args__ = (
        Index("ix_sessions_project_id", "project_id"),
        Index(
            "ix_sessions_list",
            "workspace_id",
            "user_id",
            text("(pinned_at IS NOT NULL) DESC"),
            text("updated_at DESC"),
            text("id DESC"),
        ),
    )


class Runs(Base, table=True):
    """Requests with all their resumptions."""

    id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _of("users")
    session_id: str = _of("sessions")
    kind: str = _text()
    status: str = _text()
    agent: str = _text()
    model: str = _text()
    mode: str = _text()
    trace_id: str = _text()
    attempt: int = Field(sa_column_kwargs={"server_default": text("0")})
    takeovers: int = Field(sa_column_kwargs={"server_default": text("0")})
    owner_id: str | None = _text(nullable=True)
    last_seq: int = _count()
    input: dict[str, Any] = _json()
    on_disconnect: str = _text()
    cancel_requested: bool = Field(sa_column_kwargs={"server_default": text("false")})
    error_code: str | None = _text(nullable=True)
    error_message: str | None = _text(nullable=True)
    usage: dict[str, Any] = _json("'{}'")
    context_tokens: int = _count()
    created_at: datetime = _time()
    started_at: datetime | None = _time(nullable=True)
    finished_at: datetime | None = _time(nullable=True)

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

    __tablename__ = "request_keys"

    workspace_id: str = _text(primary_key=True)
    user_id: str = _of("users", primary_key=True)
    request_id: str = _text(primary_key=True)
    session_id: str = _text()
    run_id: str = _text()
    created_at: datetime = _made_at()


class Messages(Base, table=True):
    """What the user sees. `text` repeats the words of `parts`, for searching."""

    id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _text()
    session_id: str = _of("sessions")
    run_id: str | None = _text(nullable=True)
    position: int = Field(sa_type=BigInteger)
    role: str = _text()
    parts: list[dict[str, Any]] = _json()
    text: str = _text()
    status: str = _text()
    feedback: str | None = _text(nullable=True)
    feedback_note: str | None = _text(nullable=True)
    parent_id: str | None = _text(nullable=True)
    created_at: datetime = _time()

    __table_args__ = (
        Index("uq_messages_position", "session_id", "position", unique=True),
        Index(None, "run_id"),
    )


class ToolResults(Base, table=True):
    """Whole results of tool calls."""

    __tablename__ = "tool_results"

    message_id: str = _text(primary_key=True)
    tool_call_id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _text()
    session_id: str = _of("sessions")
    run_id: str = _text()
    tool: str = _text()
    status: str = _text()
    content: str = _text()
    error: str | None = _text(nullable=True)
    duration_ms: int = Field(sa_type=BigInteger)
    meta: dict[str, Any] = _json("'{}'")
    created_at: datetime = _time()

    __table_args__ = (Index(None, "session_id"),)


class RunEvents(Base, table=True):
    """The journal. No foreign key: it is the hottest table, and only runs' deletion empties it."""

    __tablename__ = "run_events"

    run_id: str = _text(primary_key=True)
    seq: int = Field(sa_type=BigInteger, primary_key=True)
    workspace_id: str = _text()
    user_id: str = _text()
    at: datetime = _time()
    data: dict[str, Any] = _json()


class Interrupts(Base, table=True):
    """Questions to people."""

    id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _text()
    session_id: str = _of("sessions")
    run_id: str = _text()
    token: str = _text(unique=True)
    kind: str = _text()
    card: dict[str, Any] = _json()
    graph_interrupt_id: str = _text()
    checkpoint_id: str = _text()
    status: str = _text()
    decisions: list[dict[str, Any]] | None = Field(sa_column=Column(JSONB(none_as_null=True)))
    resolved_by: str | None = _text(nullable=True)
    created_at: datetime = _time()
    resolved_at: datetime | None = _time(nullable=True)

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

    __tablename__ = "usage_events"

    id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _of("users")
    session_id: str | None = _text(nullable=True)
    run_id: str | None = _text(nullable=True)
    agent: str = _text()
    model: str = _text()
    purpose: str = _text()
    input_tokens: int = _count()
    output_tokens: int = _count()
    cached_tokens: int = _count()
    reasoning_tokens: int = _count()
    usage_source: str = _text()
    created_at: datetime = _time()

    __table_args__ = (
        Index(None, "run_id"),
        Index(None, "session_id"),
        Index(None, "workspace_id", "user_id", "created_at"),
    )


class Archives(Base, table=True):
    """Summarisations."""

    id: str = _text(primary_key=True)
    workspace_id: str = _text()
    user_id: str = _text()
    session_id: str = _of("sessions")
    run_id: str = _text()
    path: str = _text()
    summary: str = _text()
    messages: int
    tokens_before: int = Field(sa_type=BigInteger)
    tokens_after: int = Field(sa_type=BigInteger)
    created_at: datetime = _time()

    __table_args__ = (Index(None, "session_id"),)


class Preferences(Base, table=True):
    """What a user wants every agent to know."""

    workspace_id: str = _of("workspaces", primary_key=True)
    user_id: str = _of("users", primary_key=True)
    data: dict[str, Any] = _json()
    updated_at: datetime = _made_at()


class ToolGrants(Base, table=True):
    """Tools that need no further approval, in one session or in the whole workspace."""

    __tablename__ = "tool_grants"

    id: str = _text(primary_key=True)
    workspace_id: str = _of("workspaces")
    user_id: str = _of("users")
    session_id: str | None = _of("sessions", nullable=True)
    tool: str = _text()
    created_at: datetime = _made_at()

    __table_args__ = (
        Index(
            "uq_tool_grants",
            "workspace_id",
            "user_id",
            "session_id",
            "tool",
            unique=True,
            postgresql_nulls_not_distinct=True,
        ),
        Index(None, "session_id"),
    )


class Owners(Base, table=True):
    """Processes that carry out runs."""

    id: str = _text(primary_key=True)
    kind: str = _text()
    host: str = _text()
    pid: int
    started_at: datetime = _time()
    beat_at: datetime = _time()


class LibraryVersions(Base, table=True):
    """How far the tables that libraries bring have come."""

    __tablename__ = "library_versions"

    library: str = _text(primary_key=True)
    version: str = _text()
    detail: str = _text()


def _table(name: str) -> Table:
    return metadata.tables[name]


workspaces = _table("workspaces")
users = _table("users")
memberships = _table("memberships")
api_keys = _table("api_keys")
web_sessions = _table("web_sessions")
login_links = _table("login_links")
projects = _table("projects")
sessions = _table("sessions")
runs = _table("runs")
request_keys = _table("request_keys")
messages = _table("messages")
tool_results = _table("tool_results")
run_events = _table("run_events")
interrupts = _table("interrupts")
usage_events = _table("usage_events")
archives = _table("archives")
preferences = _table("preferences")
tool_grants = _table("tool_grants")
owners = _table("owners")
