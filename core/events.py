"""The events of a run: the one definition that SSE, TypeScript types and docs follow.

Sources put an event into the run's sink; the journal numbers it and stores it; `api/sse.py`
encodes it. Field names are the contract of `/api/chat` and never change.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from core.types import SideEffect, UsageSource


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Event(_Frozen):
    """Base of all events; the subclasses' `type` tells them apart."""


def _is_missing(value: object) -> bool:
    return value is None


def _is_false(value: object) -> bool:
    return value is False


class Todo(_Frozen):
    """One line of the plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Question(_Frozen):
    """One question of `ask_user`."""

    question: str
    kind: Literal["text", "single", "multiple"] = "text"
    options: list[str] = Field(default_factory=list)


class ApprovalCall(_Frozen):
    """One tool call that waits for a decision."""

    tool_call_id: str
    tool: str
    args: dict[str, Any]
    reason: str
    side_effect: SideEffect
    allowed_decisions: list[Literal["approve", "edit", "reject", "respond"]]
    unchecked: bool = Field(default=False, exclude_if=_is_false)
    """Whether it is a call of an extension's own graph, whose arguments only that can check."""


class ToolApproval(_Frozen):
    """The card of an approval. The single fields repeat the call where there is just one."""

    calls: list[ApprovalCall]
    tool: str | None = None
    args: dict[str, Any] | None = None
    reason: str | None = None
    side_effect: SideEffect | None = None


class AskUser(_Frozen):
    """The card of `ask_user`."""

    questions: list[Question]


class PlanApproval(_Frozen):
    """The card of a plan."""

    plan: str


class Usage(_Frozen):
    """Tokens of a whole run, the figure that is billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    usage_source: UsageSource = "none"


class AgentStart(_Event):
    """An agent begins."""

    type: Literal["agent_start"] = "agent_start"
    agent: str
    cn_agent: str
    agent_id: str


class Thinking(_Event):
    """A model call begins."""

    type: Literal["thinking"] = "thinking"
    message: str
    cn_agent: str


class ThinkingToken(_Event):
    """A piece of the model's reasoning text."""

    type: Literal["thinking_token"] = "thinking_token"
    content: str
    message_id: str
    agent_id: str


class Executing(_Event):
    """A batch of tool calls begins."""

    type: Literal["executing"] = "executing"
    message: str
    cn_agent: str
    tools: list[str]
    cn_tools: list[str]
    agent_id: str | None = Field(default=None, exclude_if=_is_missing)
    """Set in a sub-run."""


class ToolCall(_Event):
    """One tool call begins."""

    type: Literal["tool_call"] = "tool_call"
    tool: str
    cn_tool: str
    args: dict[str, Any]
    agent_id: str
    tool_call_id: str


class ToolResult(_Event):
    """One tool call ended. `content` is a preview of at most 400 characters."""

    type: Literal["tool_result"] = "tool_result"
    tool: str
    cn_tool: str
    content: str
    error: str | None
    agent_id: str
    tool_call_id: str
    duration_ms: int


class Token(_Event):
    """A piece of the answer's text."""

    type: Literal["token"] = "token"
    content: str
    message_id: str


class UpdatedTodoList(_Event):
    """The plan changed; the whole list."""

    type: Literal["updated_todo_list"] = "updated_todo_list"
    todos: list[Todo]


class Progress(_Event):
    """Something to tell about long work."""

    type: Literal["progress"] = "progress"
    message: str
    fraction: float | None = Field(default=None, ge=0, le=1)
    agent_id: str | None = Field(default=None, exclude_if=_is_missing)
    """Set in a sub-run."""


class Interrupt(_Event):
    """The run waits for a person. Exactly one of the three cards is set, the others are left out."""

    type: Literal["interrupt"] = "interrupt"
    interrupt_token: str
    message: str
    agent_id: str | None = Field(default=None, exclude_if=_is_missing)
    """Set where a sub-run asks."""
    tool_approval: ToolApproval | None = Field(default=None, exclude_if=_is_missing)
    ask_user: AskUser | None = Field(default=None, exclude_if=_is_missing)
    plan_approval: PlanApproval | None = Field(default=None, exclude_if=_is_missing)


class Citations(_Event):
    """Where the answer's facts came from."""

    type: Literal["citations"] = "citations"
    items: list[dict[str, Any]]
    model_only: bool


class MessageReset(_Event):
    """Drop the partial text of this message; it is written anew."""

    type: Literal["message_reset"] = "message_reset"
    message_id: str
    reason: str


class UserMessage(_Event):
    """A message of the user that this stream's reader may not have sent."""

    type: Literal["user_message"] = "user_message"
    message_id: str
    content: str
    via: Literal["chat", "steer", "queue", "component"] = "chat"


class InterruptResolved(_Event):
    """The question was answered or withdrawn."""

    type: Literal["interrupt_resolved"] = "interrupt_resolved"
    interrupt_token: str
    decisions: list[dict[str, Any]]
    by: str


class ModelFallback(_Event):
    """Another model answers in place of the first."""

    type: Literal["model_fallback"] = "model_fallback"
    from_: str = Field(alias="from", serialization_alias="from")
    to: str
    reason: str

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Component(_Event):
    """A trusted component to draw."""

    type: Literal["component"] = "component"
    component_type: str
    component_id: str
    data: dict[str, Any]


class Artifact(_Event):
    """A file that was published."""

    type: Literal["artifact"] = "artifact"
    artifact_id: str
    kind: str
    title: str
    version: int


class AgentDone(_Event):
    """An agent ended well."""

    type: Literal["agent_done"] = "agent_done"
    agent: str
    cn_agent: str
    agent_id: str
    duration_ms: int
    progress: str
    context_tokens: int


class AgentError(_Event):
    """An agent ended with an error."""

    type: Literal["agent_error"] = "agent_error"
    agent: str
    cn_agent: str
    agent_id: str
    message: str
    duration_ms: int


class Done(_Event):
    """The run ended: last event of a success or a cancel."""

    type: Literal["done"] = "done"
    status: Literal["success", "cancelled"]
    duration_ms: int
    usage: Usage


class Error(_Event):
    """The run failed: last event. `code` is that of the error class."""

    type: Literal["error"] = "error"
    message: str
    code: str
    retry_after: float | None = None


Event = Annotated[
    AgentStart
    | Thinking
    | ThinkingToken
    | Executing
    | ToolCall
    | ToolResult
    | Token
    | UpdatedTodoList
    | Progress
    | Interrupt
    | Citations
    | MessageReset
    | UserMessage
    | InterruptResolved
    | ModelFallback
    | Component
    | Artifact
    | AgentDone
    | AgentError
    | Done
    | Error,
    Field(discriminator="type"),
]
"""Any event of a run."""

EVENT_ADAPTER: Final[TypeAdapter[Event]] = TypeAdapter(Event)
"""Reads and writes events as JSON."""

LAST_TYPES: Final = frozenset({"done", "error", "interrupt"})
"""A stream ends with one of these; nothing follows until the run goes on."""


class StoredEvent(_Frozen):
    """An event with the place it has in its run."""

    session_id: str
    run_id: str
    seq: int
    at: datetime
    trace_id: str | None
    data: dict[str, Any]
    """The event as JSON, `type` included."""

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.data["type"])

    def frame(self) -> dict[str, Any]:
        """Return what goes over the wire: the common fields, then the event's own."""
        common: dict[str, Any] = {
            "type": self.type,
            "session_id": self.session_id,
            "run_id": self.run_id,
            "seq": self.seq,
        }
        if self.trace_id is not None:
            common["trace_id"] = self.trace_id
        return common | self.data


def dump(event: Event) -> dict[str, Any]:
    """Return the event as JSON-ready data, wire names included."""
    return event.model_dump(mode="json", by_alias=True)
