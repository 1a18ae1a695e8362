"""Tables of what users see and own: projects, sessions, messages, archives, preferences."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, text
from sqlmodel import Field

from storage.tables.base import Base, count, data, made_at, moment, of, words


class Projects(Base, table=True):
    """Folders that sessions share; without a name it belongs to one session."""

    id: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    name: str | None = words(nullable=True)
    created_at: datetime = made_at()

    __table_args__ = (Index("uq_projects_name", "workspace_id", "user_id", "name", unique=True),)


class Sessions(Base, table=True):
    """Conversations."""

    id: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    project_id: str = words(foreign_key="projects.id")
    agent: str = words()
    title: str = words()
    title_source: str = words()
    mode: str = words()
    model: str | None = words(nullable=True)
    thinking: str | None = words(nullable=True)
    pinned_at: datetime | None = moment(nullable=True)
    next_position: int = count()
    created_at: datetime = moment()
    updated_at: datetime = moment()

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


class Messages(Base, table=True):
    """What the user sees. `text` repeats the words of `parts`, for searching."""

    id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = words()
    session_id: str = of("sessions")
    run_id: str | None = words(nullable=True)
    position: int = Field(sa_type=BigInteger)
    role: str = words()
    parts: list[dict[str, Any]] = data()
    text: str = words()
    status: str = words()
    feedback: str | None = words(nullable=True)
    feedback_note: str | None = words(nullable=True)
    parent_id: str | None = words(nullable=True)
    created_at: datetime = moment()

    __table_args__ = (
        Index("uq_messages_position", "session_id", "position", unique=True),
        Index(None, "run_id"),
    )


class ToolResults(Base, table=True):
    """Whole results of tool calls."""

    message_id: str = words(primary_key=True)
    tool_call_id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = words()
    session_id: str = of("sessions")
    run_id: str = words()
    tool: str = words()
    status: str = words()
    content: str = words()
    error: str | None = words(nullable=True)
    duration_ms: int = Field(sa_type=BigInteger)
    meta: dict[str, Any] = data("'{}'")
    created_at: datetime = moment()

    __table_args__ = (Index(None, "session_id"),)


class Archives(Base, table=True):
    """Summarisations."""

    id: str = words(primary_key=True)
    workspace_id: str = words()
    user_id: str = words()
    session_id: str = of("sessions")
    run_id: str = words()
    path: str = words()
    summary: str = words()
    messages: int
    tokens_before: int = Field(sa_type=BigInteger)
    tokens_after: int = Field(sa_type=BigInteger)
    created_at: datetime = moment()

    __table_args__ = (Index(None, "session_id"),)


class Preferences(Base, table=True):
    """What a user wants every agent to know."""

    workspace_id: str = of("workspaces", primary_key=True)
    user_id: str = of("users", primary_key=True)
    data: dict[str, Any] = data()
    updated_at: datetime = made_at()


class ToolGrants(Base, table=True):
    """Tools that need no further approval, in one session or in the whole workspace."""

    id: str = words(primary_key=True)
    workspace_id: str = of("workspaces")
    user_id: str = of("users")
    session_id: str | None = of("sessions", nullable=True)
    tool: str = words()
    created_at: datetime = made_at()

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
