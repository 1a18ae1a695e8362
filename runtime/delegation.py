"""Opens sub-runs: what another agent is handed to work on a task of a run (EXEC-41).

How sub-runs are carried out is decided in `docs/adr/0021-delegation.md`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core import events
from core.bounds import Bounds
from core.context import Drive, Limits, Place, PromptPart, RunContext, SubRun
from core.errors import ModelCallLimit, NotFound, TokenBudget
from core.events import Event
from core.hooks import Hooks
from core.ids import derived_id
from core.policies import RunPolicies
from core.ports import Archive, ModelHandle
from core.tooling import DELEGATE, AgentSpec, ToolSpec
from runtime.subruns import Sub, SubRuns
from tools.hooked_model import hooked

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from runtime.ledger import Ledger
    from runtime.recall import Recalled


@dataclass(frozen=True, slots=True)
class Delegate:
    """An agent that may be given tasks, with all that differs from the run's own agent."""

    agent: AgentSpec
    tools: Mapping[str, ToolSpec]
    approval_tools: frozenset[str]
    prompt: Sequence[PromptPart]
    limits: Limits
    brought: Callable[[], Brought]
    """Makes what extensions bring to one sub-run of it; raises `PolicyFailed`."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What extensions bring to a sub-run: that of its own agent."""

    model: ModelHandle
    """Behind the agent's gateway."""
    hooks: Hooks
    policies: RunPolicies
    bounds: Bounds


class Delegations:
    """The sub-runs of one drive; implements `core.context.Delegation`."""

    def __init__(
        self,
        limits: Limits,
        ledger: Ledger,
        recalled: Recalled,
        runs: SubRuns,
        delegate_of: Callable[[str], Delegate],
    ) -> None:
        self._limits = limits
        self._ledger = ledger
        self._recalled = recalled
        self._runs = runs
        self._delegate_of = delegate_of

    def open(self, ctx: RunContext, agent: str, call: Mapping[str, Any], place: Place) -> SubRun:
        """Return the sub-run of a call, the same one each time the call is carried on.

        Raises:
            PolicyFailed: a policy of its agent cannot be made.
        """
        from graphs.agent import agent_graph

        delegate = self._delegate_of(agent)
        spec = without_delegation(delegate.agent)
        agent_id = f"{agent}:{call['id']}"
        about = {"agent": agent, "agent_id": agent_id, "call_id": call["id"], "turn": place.turn}
        brought = delegate.brought()
        model = _UniqueCalls(brought.model, agent_id)
        drive = Drive()
        self._runs.opened(place.task, Sub(spec, delegate.tools, about, drive))
        context = dataclasses.replace(
            ctx,
            agent=spec,
            agent_id=agent_id,
            tools={name: delegate.tools[name] for name in spec.tools},
            approval_tools=delegate.approval_tools - {DELEGATE},
            prompt=delegate.prompt,
            # The time is that of the run: whoever waits for it waits for both.
            limits=dataclasses.replace(delegate.limits, seconds=self._limits.seconds),
            # Hooks see calls with the ids that they keep.
            model=hooked(model, brought.hooks, brought.bounds),
            hooks=brought.hooks,
            policies=brought.policies,
            bounds=brought.bounds,
            archive=_OwnArchive(ctx.archive, derived_id(place.turn, agent_id)),
            usage=_OwnUsage(self._ledger, agent),
            sink=_Silence(),
            emit=_Marked(ctx.emit, agent_id, self._recalled.called),
            drive=drive,
        )
        resumed = agent_id in self._recalled.agents
        return SubRun(context, agent_graph(spec), about, resumed=resumed)

    @property
    def runs(self) -> SubRuns:
        """What tells of the sub-runs."""
        return self._runs

    def sub_of(self, about: Mapping[str, Any]) -> Sub | None:
        """Return the sub-run that is stored with these facts; None where its agent is gone."""
        try:
            delegate = self._delegate_of(about["agent"])
        except NotFound:
            return None
        return Sub(without_delegation(delegate.agent), delegate.tools, about, Drive())

    def check_budgets(self) -> None:
        """Raise the named end of a run whose model calls or tokens are used up.

        Raises:
            ModelCallLimit, TokenBudget: what is used up.
        """
        limits, total = self._limits, self._ledger.total()
        if limits.tokens and total.input_tokens + total.output_tokens >= limits.tokens:
            raise TokenBudget(details={"tokens": limits.tokens})
        if self._ledger.calls >= limits.model_calls:
            raise ModelCallLimit(details={"model_calls": limits.model_calls})


def without_delegation(agent: AgentSpec) -> AgentSpec:
    """Return an agent as it works on a delegated task: it cannot delegate further."""
    tools = tuple(name for name in agent.tools if name != DELEGATE)
    return dataclasses.replace(agent, tools=tools, delegates=())


class _Silence:
    """Takes a sub-run's text and lets nobody see it; a `core.ports.TokenSink`."""

    def token(self, message_id: str, text: str) -> None:
        """Take a piece of the text."""

    def thinking(self, message_id: str, text: str) -> None:
        """Take a piece of the reasoning."""

    def reset(self, message_id: str, reason: str) -> None:
        """Learn that a text starts anew."""


class _Marked:
    """Lets those events of a sub-run pass that tell what it does, each with its `agent_id`."""

    def __init__(self, emit: Callable[[Event], None], agent_id: str, called: set[str]) -> None:
        self._emit = emit
        self._own = {"agent_id": agent_id}
        self._called = called

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        match event:
            case events.ToolCall():
                # Ids of a sub-run's calls come once: watchers know this one from before.
                if event.tool_call_id not in self._called:
                    self._emit(event.model_copy(update=self._own))
            case events.AgentStart() | events.Component():
                self._emit(event)
            case events.Executing() | events.Progress():
                self._emit(event.model_copy(update=self._own))
            case _:
                # A turn that begins, a plan of its own: they would be taken for the run's.
                pass


class _OwnUsage:
    """Counts a sub-run's model calls for the run, under its agent's name."""

    def __init__(self, ledger: Ledger, agent: str) -> None:
        self._ledger = ledger
        self._agent = agent

    def add(self, purpose: str, usage: dict[str, Any]) -> None:
        """Count one model call."""
        self._ledger.add(purpose, usage, agent=self._agent)


class _OwnArchive:
    """Keeps what summarising takes from a sub-run apart from the session's own archive."""

    def __init__(self, archive: Archive, name: str) -> None:
        self._archive = archive
        self._name = name

    async def append(self, session_id: str, text: str) -> str:
        """Add text to the sub-run's archive and return its virtual path."""
        return await self._archive.append(f"{session_id}-{self._name[:8]}", text)

    async def keep(self, message_id: str, text: str) -> str:
        """Store one long tool result whole and return its virtual path."""
        return await self._archive.keep(message_id, text)


class _UniqueCalls:
    """A model whose calls have ids that no other conversation of the run has.

    Providers number the calls of each conversation anew, and events of several conversations
    stand in one stream.
    """

    def __init__(self, model: ModelHandle, scope: str) -> None:
        self._model = model
        self._scope = scope
        self.name = model.name
        self.provider = model.provider
        self.context_window = model.context_window
        self.max_output = model.max_output
        self.is_demo = model.is_demo

    async def ask(self, messages: Sequence[Any], **options: Any) -> Any:
        """Send the messages and return the answer."""
        answer: AIMessage = await self._model.ask(messages, **options)
        for call in (*answer.tool_calls, *answer.invalid_tool_calls):
            own = derived_id(self._scope, str(answer.id), str(call["id"]))
            call["id"] = f"call_{own.replace('-', '')[:24]}"
        return answer
