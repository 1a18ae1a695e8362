"""Steps of the graph in which middleware look at the state and change it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from core.context import RunContext
from core.errors import MiddlewareFailed
from nodes.budgets import check_budgets
from nodes.middleware.channels import Fields, RunValue, joins
from nodes.middleware.costs import counting
from nodes.middleware.messages import new_turns, written
from nodes.middleware.stack import Member, Point
from nodes.middleware.values import plain
from nodes.state import State, loop_of, messages_of

Step = Callable[[State, Runtime[RunContext]], Awaitable[Command[Any]]]

OURS: Final = frozenset({"todos", "summary", "loop", "decisions", "structured_response"})
"""Channels that middleware may read and not write."""


def step(
    member: Member,
    point: Point,
    fields: Fields,
    following: str,
    jumps: Mapping[str, str],
) -> Step:
    """Return the step in which one method of a middleware runs.

    Args:
        member: the middleware.
        point: which of its methods.
        fields: channels that there are beside ours.
        following: the step after it.
        jumps: where `jump_to` leads, by its value.
    """
    method = member.method(point)

    async def run(state: State, runtime: Runtime[RunContext]) -> Command[Any]:
        """Run the method and take what it gives.

        Raises:
            MiddlewareFailed: it raised, or gave what it may not.
            LimitReached: the run's steps are used up by jumps.
        """
        ctx, known = runtime.context, messages_of(state)
        info = runtime.execution_info
        with member.named(point), counting(ctx) as spent:
            given = await method({**state, "messages": list(known)}, runtime)
            update = _checked(member, point, given, state, fields)
            if "messages" in update:
                seed = (ctx.run_id, info.task_id if info else "", member.name)
                update["messages"] = written(update["messages"], known, *seed)
        loop = loop_of(state)
        loop["tokens"] += spent.tokens
        jump = _jump(member, point, update.pop("jump_to", None))
        if point == "after_model":
            # The turn is told first; `judge` then goes where the jump leads.
            loop["jump"] = jump
        else:
            _show(ctx, new_turns(update.get("messages") or [], known))
        goto = jumps[jump] if jump else following
        if jump in ("model", "tools"):
            # One that always jumps would go round for ever.
            loop["steps"] += 1
            check_budgets(ctx, loop)
        return Command(update={**update, "loop": loop}, goto=goto)

    return run


def _jump(member: Member, point: Point, jump: Any) -> str:
    """Return where a method wants to go; empty where it wants to go on.

    Raises:
        MiddlewareFailed: it never said that it may.
    """
    if jump is not None and jump not in member.may_jump(point):
        raise MiddlewareFailed(
            f"{member.name}.{point} jumped to {str(jump)[:40]!r} without having said that it may: "
            f"@hook_config(can_jump_to=[…])."
        )
    return str(jump or "")


def _show(ctx: RunContext, turns: Iterable[AIMessage]) -> None:
    """Show what a middleware says in the assistant's place."""
    for turn in turns:
        ctx.sink.reset(str(turn.id), "The step is repeated after an interruption.")
        ctx.sink.token(str(turn.id), turn.text)


def _checked(
    member: Member, point: Point, given: Any, state: State, fields: Fields
) -> dict[str, Any]:
    """Return the update that a method gave, if it is one that it may give."""
    where = f"{member.name}.{point}"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise MiddlewareFailed(f"{where} gave {kind}, not a dict of state or None.")
    update = dict(cast("Mapping[Any, Any]", given))
    ours = {name: update.pop(name) for name in ("messages", "jump_to") if name in update}
    return ours | written_state(where, update, fields, state)


def written_state(
    where: str, update: Mapping[Any, Any], fields: Fields, state: State = MappingProxyType({})
) -> dict[str, Any]:
    """Return the state that a middleware writes, as it is stored.

    Args:
        where: who writes it, for messages.
        update: what is written, without messages.
        fields: what may be written.
        state: what stands there so far, where that is known.

    Raises:
        MiddlewareFailed: it is not its own, or cannot be kept.
    """
    fit: dict[str, Any] = {}
    for name, value in update.items():
        if name not in fields:
            why = "which is the server's own" if name in OURS else "which its state_schema lacks"
            raise MiddlewareFailed(f"{where} wrote the state {name!r}, {why}.")
        if isinstance(fields[name], RunValue):
            fit[name] = value
            continue
        try:
            fit[name] = plain(value)
            joins(fields[name], state.get(name), fit[name])
        except ValueError as problem:
            raise MiddlewareFailed(
                f"{where} wrote the state {name!r}, which cannot be kept: {problem}. State holds "
                "messages, plain data, pydantic models and data classes."
            ) from problem
    return fit
