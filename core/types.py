"""The words everything else is written in."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NewType

WorkspaceId = NewType("WorkspaceId", str)
"""Id of a tenant."""
UserId = NewType("UserId", str)
"""Id of a person or service inside a workspace."""
SessionId = NewType("SessionId", str)
"""Id of one conversation; also the LangGraph thread id (a UUID)."""
RunId = NewType("RunId", str)
"""Id of one request with all its resumptions (a UUID)."""
MessageId = NewType("MessageId", str)
"""Id of a message; the same in the graph state, the events and the database."""
CallId = NewType("CallId", str)
"""Id of one tool call inside a model turn."""


Mode = Literal["plan", "full"]
"""`plan`: only tools without side effects run until a plan is approved."""

SideEffect = Literal["none", "write", "external"]
"""What a tool changes: nothing, the user's own files or settings, the outside world."""

DecisionType = Literal["approve", "edit", "reject", "respond"]
"""LangChain's vocabulary of answers to an approval."""

UsageSource = Literal["provider", "estimate", "mixed", "none"]
"""Where token counts came from."""


class RunStatus(StrEnum):
    """States of a run. `queued`, `running` and `waiting_input` hold the session."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


ACTIVE: Final = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING_INPUT)
"""States that keep other messages out of the session."""

TERMINAL: Final = (
    RunStatus.SUCCESS,
    RunStatus.FAILED,
    RunStatus.CANCELLED,
    RunStatus.INTERRUPTED,
)


class RunKind(StrEnum):
    """What asked for a run."""

    CHAT = "chat"
    SCHEDULE = "schedule"
    BATCH = "batch"


class MessageStatus(StrEnum):
    """Whether a stored message is whole."""

    COMPLETE = "complete"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"


SCRIPT: Final = "script"
"""Kind of an owner that is a script, and the name under which a run's input says what one asked."""


class InterruptKind(StrEnum):
    """What a waiting run waits for."""

    TOOL_APPROVAL = "tool_approval"
    ASK_USER = "ask_user"
    PLAN_APPROVAL = "plan_approval"


class InterruptStatus(StrEnum):
    """Life of a question: only `pending` ones can be answered."""

    PENDING = "pending"
    RESOLVED = "resolved"
    WITHDRAWN = "withdrawn"
