"""Typed hooks (EXT-10): where a run can be looked at and changed, and what may be changed there.

A hook is `fn(event) -> None | event`: it gets one of the records below, read-only, and returns
nothing, or a record of the same type with other values (`dataclasses.replace(event, …)`). Which
fields may differ is written at the fields; everything else must stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar

from core.hook_values import (
    a_limit,
    a_value,
    an_object,
    any_text,
    fewer_names,
    may_be,
    only_texts,
)
from core.types import Mode, SideEffect

OnError = Literal["fail", "ignore"]
Role = Literal["system", "user", "assistant", "tool"]

TIMEOUT: Final = 5.0
LONGEST_TIMEOUT: Final = 60.0
"""Seconds that a hook may ask for: it holds up a run, and whoever waits for it."""

NO_EMBEDDINGS: Final = frozenset({"embedding.before", "embedding.after"})
"""Points that will be; nothing is embedded yet, so a hook there would never be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    """Whose run it is."""

    run_id: str
    session_id: str
    trace_id: str
    workspace_id: str
    user_id: str
    user: str
    """The name of the user who asks."""
    agent: str
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What every record has."""

    run: HookRun


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """A tool call in a message."""

    id: str
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMessage:
    """One message as a model is sent it. Where messages may be changed, their `text` may."""

    role: Role
    text: str
    calls: tuple[HookCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest(HookEvent):
    """`model_request.before`: any question to a model: turns, summaries, reviews, titles."""

    model: str
    shown: bool
    """Whether the answer is shown to the user: true for turns."""
    messages: tuple[HookMessage, ...] = may_be(only_texts)
    tools: tuple[str, ...] = may_be(fewer_names)
    """Names of the tools the model is offered; they can be taken away, none can be added."""
    max_tokens: int | None = may_be(a_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer(HookEvent):
    """`model_request.after`: what the model answered."""

    model: str
    shown: bool
    calls: tuple[HookCall, ...]
    finish_reason: str
    input_tokens: int
    output_tokens: int
    text: str = may_be(any_text)
    reasoning: str = may_be(any_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(HookEvent):
    """`tool_call.before`: a call that could run, before anybody is asked to approve it.

    Changed arguments are checked by the tool's schema and are what the person approves, what
    the history shows and what runs. Raising `ToolDenied("reason")` keeps it from running.
    """

    tool: str
    tool_call_id: str
    side_effect: SideEffect
    edited: bool
    """Whether a person changed the arguments at the approval: they can be denied then, and
    not be changed any more."""
    args: Mapping[str, Any] = may_be(an_object)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(HookEvent):
    """`tool_call.after`: how a call that was carried out ended, before that is stored."""

    tool: str
    tool_call_id: str
    args: Mapping[str, Any]
    status: Literal["completed", "failed", "denied", "timeout"]
    data: object = may_be(a_value)
    """What the model sees; of a call that did not complete, the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPart:
    """A part of the system prompt: preferences of the user, skills."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParts(HookEvent):
    """`context.before`: what a turn's request is built from."""

    instructions: str = may_be(any_text)
    """The agent's own prompt."""
    parts: tuple[ContextPart, ...] = may_be(only_texts)
    """Further parts; one with an empty text is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBuilt(HookEvent):
    """`context.after`: the messages of a turn's request, the system prompt first."""

    messages: tuple[HookMessage, ...] = may_be(only_texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryRequest(HookEvent):
    """`summarisation.before`: old messages are about to be replaced by a summary."""

    messages: int
    """How many are replaced."""
    earlier: str
    """The summary of what was replaced before."""
    instructions: str = may_be(any_text)
    """What the model that summarises is told besides the product's own rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryText(HookEvent):
    """`summarisation.after`: the summary, before it replaces anything."""

    messages: int
    text: str = may_be(any_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart(HookEvent):
    """`run.before`: a run begins. Raising `ToolDenied("reason")` ends it with that reason."""

    message: str = may_be(any_text)
    """What the agent is given; the history shows what the user wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd(HookEvent):
    """`run.after`: a run has come to its end, its answer given or failed; not when cancelled."""

    status: Literal["success", "failed"]
    answer: str
    error_code: str
    """Empty where it succeeded."""
    duration_ms: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRunStart(HookEvent):
    """`sub_run.before`: the agent hands a task to another. `ToolDenied` keeps it from running."""

    agent: str
    """Who is to do it; `run.agent` is who asks."""
    task: str = may_be(any_text)
    """What that agent is given; the history shows what it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubRunEnd(HookEvent):
    """`sub_run.after`: what the other agent answered."""

    agent: str
    status: Literal["completed", "failed", "denied", "timeout"]
    text: str = may_be(any_text)
    """The answer, or why there is none; an object that a graph gave is its JSON here."""


POINTS: Final[Mapping[str, type[HookEvent]]] = {
    "model_request.before": ModelRequest,
    "model_request.after": ModelAnswer,
    "tool_call.before": ToolCall,
    "tool_call.after": ToolResult,
    "context.before": ContextParts,
    "context.after": ContextBuilt,
    "summarisation.before": SummaryRequest,
    "summarisation.after": SummaryText,
    "run.before": RunStart,
    "run.after": RunEnd,
    "sub_run.before": SubRunStart,
    "sub_run.after": SubRunEnd,
}
"""Each point with the record that its hooks get."""

REFUSING: Final = frozenset({"tool_call.before", "run.before", "sub_run.before"})
"""Points where raising `ToolDenied` is a decision and no failure."""

OF_ANY_GRAPH: Final = frozenset({"run.before", "run.after", "sub_run.before", "sub_run.after"})
"""Points that agents with a graph of their own reach, too."""


class HookDeclaration(NamedTuple):
    """A hook as registered, unchecked."""

    point: str
    function: Callable[[Any], Any]
    timeout: object
    on_error: object
    agents: Any
    observes: object
    where: str
    extension: str


@dataclass(frozen=True, slots=True)
class HookSpec:
    """A hook that passed every check."""

    name: str
    """The function's own name."""
    point: str
    function: Callable[[Any], Any]
    timeout: float
    on_error: OnError
    agents: tuple[str, ...] | None
    """None: all of them."""
    observes: bool
    """It returns nothing, so that nothing has to wait for it before it is shown."""
    extension: str
    fingerprint: str

    def concerns(self, agent: str) -> bool:
        """Tell whether it is called in runs of this agent."""
        return self.agents is None or agent in self.agents


E = TypeVar("E", bound=HookEvent)


class Hooks:
    """The hooks of one run. This one has none; `tools.hooks.RunHooks` calls them."""

    run: HookRun = HookRun(
        run_id="",
        session_id="",
        trace_id="",
        workspace_id="",
        user_id="",
        user="",
        agent="",
        mode="full",
    )

    at: Mapping[str, Sequence[HookSpec]] = MappingProxyType({})
    """Those to be called, by point and in order."""

    def wants(self, point: str) -> bool:
        """Tell whether anything is to be called there, so that the record is worth making."""
        return point in self.at

    def changes(self, point: str) -> bool:
        """Tell whether anything called there may change what it is given."""
        return any(not spec.observes for spec in self.at.get(point, ()))

    async def apply(self, event: E, check: Callable[[E], None] | None = None) -> E:
        """Call the hooks of the record's point, one after another.

        Args:
            event: the record of the point.
            check: raises `BadChange` for a changed record that does not do.

        Returns:
            The record with every change.

        Raises:
            HookError: a hook failed that is to end the run.
            ToolDenied: a hook refuses, where that is possible.
        """
        del check
        return event
