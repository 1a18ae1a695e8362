"""How a tool is declared, and what it is told when it is called.

`define_tool` only writes down what the author says; the function stays plain and can be
called in a unit test as it is. Resolving (schema, checks) happens in `tools/resolve.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from core.ports import FileStore
from core.principal import Principal
from core.skills import SkillShelf
from core.types import DecisionType, SideEffect

F = TypeVar("F", bound=Callable[..., Any])

DECLARATION = "__graphwright_tool__"
"""Attribute of a function that carries its declaration."""

ToolKind = Literal["plain", "question", "plan", "delegate"]
"""`question` and `plan` tools never run: they pause the run and the answer is their result.
`delegate` is the built-in tool that gives a task to another agent."""

DELEGATE = "delegate"
"""The name of that tool."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What the author said about a tool, unchecked."""

    name: str | None = None
    group: str = "general"
    label: str | None = None
    summary: str | None = None
    requires_approval: bool = False
    side_effect: SideEffect = "none"
    idempotent: bool = False
    timeout: float | None = None
    kind: ToolKind = "plain"
    allowed_decisions: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")


def define_tool(
    group: str = "general",
    label: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Callable[[F], F]:
    """Declare a function as a tool. Never raises: faults are collected at the start.

    Args:
        group: heading under which the tool is listed.
        label: name shown to people; the tool's name where missing.
        name: name the model calls; the function's name where missing.
        options: the other fields of `ToolDeclaration`.
    """

    def mark(function: F) -> F:
        said = {"group": group, "label": label, "name": name, **options}
        # Something that takes no attributes stays undeclared, which is reported at the start.
        with suppress(AttributeError, TypeError):
            setattr(function, DECLARATION, said)
        return function

    return mark


class ToolContext(Protocol):
    """What a tool that declares a parameter `ctx: ToolContext` is given; hidden from its schema."""

    principal: Principal
    session_id: str
    run_id: str
    tool_call_id: str
    agent: str
    files: FileStore
    skills: SkillShelf
    """The skills of the user who asks."""
    clock: Any
    """A `core.clock.Clock`."""

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell the user how far the work is; `fraction` lies between 0 and 1."""
        ...

    def component(self, component_type: str, data: Mapping[str, Any]) -> str:
        """Show a card that an extension registered; it stays with the call in the history.

        Returns:
            The card's id.

        Raises:
            ToolFailed: there is no such component, the data do not fit it, or there are too many.
        """
        ...

    def set_todos(self, todos: Sequence[Mapping[str, str]]) -> None:
        """Replace the run's plan: items with `content` and `status`, as in `core.events.Todo`."""
        ...


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that passed every check and can be bound to a model."""

    name: str
    label: str
    group: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of the arguments, an object."""
    validate: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Returns arguments of the right types, or raises `ToolArgumentsInvalid`."""
    call: Callable[[dict[str, Any], ToolContext], Awaitable[Any]]
    """Calls the function with validated arguments; sync functions run in a thread."""
    requires_approval: bool
    side_effect: SideEffect
    idempotent: bool
    timeout: float | None
    kind: ToolKind = "plain"
    allowed_decisions: tuple[DecisionType, ...] = ("approve", "edit", "reject", "respond")
    requires: tuple[str, ...] = ()
    """Services that it takes with `get_service`."""
    extension: str = "?"
    """Which one brought it."""

    def openai(self) -> dict[str, Any]:
        """Return the tool as a model is told of it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.schema),
            },
        }


@dataclass(frozen=True, slots=True)
class InputShape:
    """What a graph takes in place of a conversation."""

    schema: Mapping[str, Any]
    """JSON schema of the input, an object."""
    check: Callable[[Any], dict[str, Any]]
    """Returns checked plain data, or raises `ToolArgumentsInvalid`."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent that passed every check."""

    name: str
    label: str
    description: str
    prompt: str
    tools: tuple[str, ...]
    approval_tools: frozenset[str] = frozenset()
    review: bool = False
    """Whether an answer without tool calls goes through completion review (EXEC-06)."""
    free_calls_first: bool = False
    """Whether calls that need no approval run while others of their batch wait (EXEC-20)."""
    parallel_calls: int = 8
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """Overrides of `core.context.Limits` by field name."""
    policies: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of policies by kind, where extensions decide in the product's place."""
    graph: Any = None
    """The compiled graph of one that an extension registered whole, in place of our loop."""
    middleware: Any = None
    """A `nodes.middleware.stack.Stack` where middleware has this agent as its target."""
    delegates: tuple[str, ...] = ()
    """Agents that it may give tasks to (EXEC-41)."""
    shape: InputShape | None = None
    """What a task for its graph must look like, where that is more than a text."""
    delegate_only: bool = False
    """Whether it takes tasks of other agents only: its graph has no conversation."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact came from."""

    title: str
    url: str | None = None
    snippet: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Sourced:
    """A tool's result together with its sources."""

    data: Any
    sources: Sequence[Source]


def source(title: str, url: str | None = None, snippet: str | None = None, **meta: Any) -> Source:
    """Name one source of a tool's result."""
    return Source(title, url, snippet, meta)


def sourced(data: Any, sources: Sequence[Source]) -> Sourced:
    """Return a result whose sources become the answer's citations."""
    return Sourced(data, tuple(sources))
