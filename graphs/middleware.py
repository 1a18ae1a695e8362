"""The agent graph of agents with middleware: the same loop, with their steps in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict, get_type_hints

from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ProviderToolSearchMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
)
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from core.context import RunContext
from graphs.routes import (
    after_answer,
    after_approve,
    after_last_answer,
    after_observe,
    after_review,
    room,
)
from nodes.approve import approve
from nodes.call_model import call_model
from nodes.middleware.channels import CLEARED, Fields, RunValue, boxed
from nodes.middleware.stack import Member, Point, Stack, step_names
from nodes.middleware.steps import OURS, step
from nodes.middleware.tools import spec_of, tool_step
from nodes.middleware.turn import asking, end, judge, sort
from nodes.observe import observe
from nodes.prepare import prepare
from nodes.review import review
from nodes.run_tool import run_tool
from nodes.state import ChatState, State, loop_of
from nodes.summarise import summarise

__all__ = ["REFUSED", "AgentMiddleware", "Member", "Stack", "compiled", "own_state", "spec_of"]

Graph = CompiledStateGraph[Any, Any, Any, Any]

_ALONE: tuple[Point, ...] = ("before_agent", "before_model", "after_agent")
"""Points from which a jump to the tools finds calls that nobody has sorted."""

_DOUBLES = "doubles what is built in"

REFUSED: Mapping[type, tuple[str, str]] = {
    SummarizationMiddleware: (
        _DOUBLES,
        "Long conversations are summarised by the server itself; the agent's limits "
        "context_limit, summary_at and summary_to say when.",
    ),
    HumanInTheLoopMiddleware: (
        _DOUBLES,
        "Approvals are the server's own: requires_approval=True in define_tool, approval_tools "
        "of the agent, or HITL_TOOLS.",
    ),
    TodoListMiddleware: (
        _DOUBLES,
        "The server has a plan of its own; give the agent the tool update_plan.",
    ),
    ProviderToolSearchMiddleware: (
        "needs tools that the provider itself looks up, which the server's requests do not have",
        "Let LLMToolSelectorMiddleware choose the tools of a request.",
    ),
}
"""Ready-made middleware that cannot stand here: why, and the cure."""


def own_state(members: Sequence[Member]) -> dict[str, Any]:
    """Return the channels that middleware add to ours, by name.

    Raises:
        ValueError: two of them give one name different types.
    """
    ours = {*get_type_hints(ChatState), *OURS, "messages", "jump_to"}
    found: dict[str, tuple[str, Any]] = {}
    for member in members:
        hints = get_type_hints(member.middleware.state_schema, include_extras=True)
        for name, hint in hints.items():
            if name in ours:
                continue
            other, known = found.setdefault(name, (member.name, hint))
            if known != hint:
                raise ValueError(
                    f"The state {name!r} is of one kind with {other} and of another with "
                    f"{member.name}."
                )
    return {name: hint for name, (_, hint) in found.items()}


@lru_cache(maxsize=64)
def compiled(review_answers: bool, stack: Stack) -> Graph:
    """Return the graph of an agent with middleware, compiled once for each stack."""
    return _Builder(review_answers, stack).graph()


class _Builder:
    """Puts the steps of the loop and those of the middleware together."""

    def __init__(self, review_answers: bool, stack: Stack) -> None:
        self._stack, self._review = stack, review_answers
        extra = own_state(stack.members)
        self._schema = _typed_dict({**_hints(ChatState), **extra})
        self._graph: Any = StateGraph(self._schema, context_schema=RunContext)
        self._fields: Fields = {name: boxed(self._graph.channels[name]) for name in extra}
        self._before = self._names("before_model")
        self._after = self._names("after_model")[::-1]
        self._last = self._names("after_agent")[::-1]
        self._enter = [*self._before, "call_model"][0]
        """Where a turn begins."""
        self._exit = [*self._last, "finish"][0]
        """Where the run goes when nothing is left to do."""

    def graph(self) -> Graph:
        """Return the whole, compiled."""
        self._add_steps()
        self._add_hooks()
        self._add_loop()
        self._add_turn()
        self._graph.channels.update(self._fields)
        return self._graph.compile()

    # Helpers ----------------------------------------------------------------------------

    def _names(self, point: Point) -> list[str]:
        return step_names(point, self._stack.at(point))

    def _add_steps(self) -> None:
        stack, add = self._stack, self._graph.add_node
        wrapped = bool(stack.at("wrap_tool_call") or stack.tools)
        add("prepare", _preparing(self._fields))
        add("summarise", summarise)
        add("call_model", asking(stack, self._fields) if stack.judges else call_model)
        add("approve", approve)
        add("run_tool", tool_step(stack, self._fields) if wrapped else run_tool)
        add("observe", observe)
        add("finish", end)
        if stack.judges:
            add("judge", judge)
        if any("tools" in one.may_jump(point) for point in _ALONE for one in stack.at(point)):
            add("sort", sort)
            self._graph.add_edge("sort", "approve")
        if self._review:
            add("review", review)

    def _add_hooks(self) -> None:
        """Add the steps of the middleware themselves, each leading to the next."""
        first = self._stack.at("before_agent")
        self._chain("before_agent", first, "enter")
        self._chain("before_model", self._stack.at("before_model"), "call_model")
        self._chain("after_model", self._stack.at("after_model")[::-1], "judge")
        self._chain("after_agent", self._stack.at("after_agent")[::-1], "finish")
        self._graph.add_node("enter", _enter)
        self._graph.add_edge(START, "prepare")
        self._graph.add_edge("prepare", [*step_names("before_agent", first), "enter"][0])
        self._route("enter", room, "summarise", "call_model")

    def _chain(self, point: Point, members: Sequence[Member], then: str) -> None:
        names = step_names(point, members)
        inside = point == "after_model"
        jumps = {
            "model": "judge" if inside else "enter",
            "tools": "judge" if inside else "sort",
            "end": "judge" if inside else ("finish" if point == "after_agent" else self._exit),
        }
        for index, member in enumerate(members):
            following = [*names, then][index + 1]
            targets = {jumps[jump] for jump in member.may_jump(point)}
            node = step(member, point, self._fields, following, jumps)
            self._graph.add_node(
                names[index],
                node,
                input_schema=self._schema,
                destinations=tuple(sorted({following, *targets})),
            )

    def _add_loop(self) -> None:
        add = self._graph.add_edge
        add("summarise", self._enter)
        if self._review:
            self._route("review", after_review, "approve", "summarise", "call_model", "finish")
        self._route("approve", after_approve, "run_tool", "summarise", "call_model")
        add("run_tool", "observe")
        self._route("observe", after_observe, "approve", "summarise", "call_model")
        add("finish", END)

    def _add_turn(self) -> None:
        answered = "review" if self._review else "finish"
        leads = after_answer if self._review else after_last_answer
        if not self._stack.judges:
            self._route("call_model", leads, "summarise", "call_model", "approve", answered)
            return
        after = [*self._after, "judge"][0]
        self._graph.add_conditional_edges("call_model", _said(after), ["summarise", "enter", after])
        places = {"summarise", "call_model", "approve", answered, "finish"}
        self._route("judge", _judged(leads), *sorted(places))

    def _route(self, name: str, leads: Callable[..., Any], *places: str) -> None:
        """Let a step lead where a route of the plain loop says, through the steps in between."""
        paths = {"call_model": self._enter, "finish": self._exit}
        self._graph.add_conditional_edges(
            name, leads, {place: paths.get(place, place) for place in places}
        )


def _preparing(fields: Fields) -> Callable[[State], Awaitable[dict[str, Any]]]:
    """Return the first step, which forgets what middleware noted of the run before."""
    of_a_run = {name: CLEARED for name, one in fields.items() if isinstance(one, RunValue)}

    async def begun(state: State) -> dict[str, Any]:
        return await prepare(state) | of_a_run

    return begun


async def _enter(state: State) -> dict[str, Any]:
    """Take note of a jump that led here; the turn begins as any other."""
    return {"loop": loop_of(state) | {"jump": ""}}


def _said(after: str) -> Callable[[State], str]:
    def said(state: State) -> str:
        loop = loop_of(state)
        if loop["overflow"]:
            return "summarise"
        return "enter" if loop["empty"] else after

    return said


def _judged(leads: Callable[[State], str]) -> Callable[[State, Runtime[RunContext]], str]:
    def judged(state: State, runtime: Runtime[RunContext]) -> str:
        jump = loop_of(state)["jump"]
        if jump == "end":
            return "finish"
        return room(state, runtime) if jump == "model" else leads(state)

    return judged


def _typed_dict(hints: dict[str, Any]) -> Any:
    """Return a `TypedDict` with these fields; LangGraph reads its channels from one."""
    make: Any = TypedDict
    return make("MiddlewareState", hints)


def _hints(schema: type) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)
