"""What nodes and tools are handed for one run, through LangGraph's `Runtime.context`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.bounds import Bounds
from core.clock import Clock
from core.components import ComponentSpec
from core.events import Event
from core.hooks import Hooks
from core.policies import RunPolicies
from core.ports import Archive, CallJournal, FileStore, Grants, ModelHandle, TokenSink, Usages
from core.principal import Principal
from core.skills import EmptyShelf, SkillShelf
from core.tooling import AgentSpec, ToolSpec
from core.types import Mode


@dataclass(frozen=True, slots=True)
class Limits:
    """When a run stops by itself. 0 means no limit where a field says so."""

    steps: int = 300
    model_calls: int = 150
    tokens: int = 0
    """Input and output together over the run; 0 = no limit."""
    seconds: float = 0
    """Wall time of the work, waiting for people not counted; 0 = no limit."""
    repeat_hint: int = 2
    """After so many equal calls with equal results a hint is added."""
    repeat_refuse: int = 4
    """From so many equal calls on the call is refused."""
    stall_steps: int = 8
    """So many steps in a row without anything new end the run."""
    context_limit: int = 0
    """Declared window; 0 = the model's own."""
    summary_at: float = 0.85
    summary_to: float = 0.60
    compact: bool = True
    """Whether summarising is on at all."""
    summary_input: int = 0
    """Tokens one summary request may carry; longer history is summarised in pieces. 0 = by window."""
    reviews: int = 3
    """How often completion review may send the agent back to work (EXEC-06)."""
    result_chars: int = 16_000
    """Longer tool results are shortened for the model and kept whole beside it."""
    preview_chars: int = 400
    tool_timeout: float = 120.0
    """Seconds for tools that declare none."""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One source of the system prompt."""

    name: str
    text: str


@dataclass(slots=True)
class Drive:
    """What nodes remember while one drive of the graph lasts; never stored."""

    asked: bool = False
    """Whether the model was asked in this drive."""
    memo: dict[str, object] = field(default_factory=dict[str, object])
    """What a node worked out and may use again, by its name."""
    given: frozenset[str] = frozenset()
    """Ids of the messages that an extension's own graph was handed."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything a node may use. Built by `runtime` once per drive of the graph."""

    principal: Principal
    session_id: str
    run_id: str
    trace_id: str
    attempt: int
    agent: AgentSpec
    mode: Mode
    model: ModelHandle
    tools: Mapping[str, ToolSpec]
    """The agent's tools by name."""
    approval_tools: frozenset[str]
    """Names that need a decision: union of all that ask for it (EXEC-23), grants not taken off."""
    grants: Grants
    calls: CallJournal
    files: FileStore
    archive: Archive
    usage: Usages
    sink: TokenSink
    emit: Callable[[Event], None]
    """Puts an event into the run's journal, in order with the tokens."""
    clock: Clock
    limits: Limits
    prompt: Sequence[PromptPart]
    """Further parts of the system prompt: user preferences, authorised context. The core rules
    and the agent's own prompt are put before them by `nodes/prompt.py`."""
    started: float
    """`clock.monotonic()` at the start of this drive."""
    seconds_before: float = 0.0
    """Seconds worked in earlier drives of the same run."""
    skills: SkillShelf = field(default_factory=EmptyShelf)
    """The skills of the user who asks."""
    hooks: Hooks = field(default_factory=Hooks)
    """What extensions want to be asked in this run."""
    components: Mapping[str, ComponentSpec] = field(default_factory=dict[str, ComponentSpec])
    """Cards that tools may show, by type."""
    policies: RunPolicies = field(default_factory=RunPolicies)
    """What extensions decide in the product's place."""
    bounds: Bounds = field(default_factory=Bounds)
    """What a request may take that extensions changed."""
    extras: Mapping[str, object] = field(default_factory=dict[str, object])
    delegation: Delegation | None = None
    """How tasks are given to other agents, where this agent may; theirs have it too."""
    agent_id: str = ""
    """Which sub-run this is, as events name it; empty for the run itself."""
    drive: Drive = field(default_factory=Drive)

    def seconds_worked(self) -> float:
        """Return the seconds worked on this run, waiting for people not counted."""
        return self.seconds_before + self.clock.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class SubRun:
    """One task that was given to another agent, ready to be carried out."""

    context: RunContext
    graph: Any
    """Its agent's compiled graph, without a checkpointer of its own."""
    about: Mapping[str, Any]
    """`agent`, `agent_id`, `call_id`, `turn`: plain data that is stored with the sub-run."""
    resumed: bool
    """Whether watchers have seen it begin."""


class Delegation(Protocol):
    """Opens sub-runs within one drive of a run (EXEC-41)."""

    def open(self, ctx: RunContext, agent: str, call: Mapping[str, Any], place: Place) -> SubRun:
        """Return the sub-run of a call, the same one each time the call is carried on.

        Raises:
            PolicyFailed: a policy of its agent cannot be made.
        """
        ...

    def check_budgets(self) -> None:
        """Raise the named end of a run whose model calls or tokens are used up, sub-runs included.

        Raises:
            ModelCallLimit, TokenBudget: what is used up.
        """
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a call is carried out."""

    turn: str
    """The message that asked for it."""
    task: str
    """The graph's task that carries it out."""
