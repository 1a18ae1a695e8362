"""The step that asks the model, and the one that lets a turn stand, of agents with middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import ContextOverflow, MiddlewareFailed
from core.faults import fault
from nodes.call_model import answered, begin_turn, overflowed, sorted_calls, unanswered
from nodes.finish import finish
from nodes.middleware.channels import Fields
from nodes.middleware.messages import since
from nodes.middleware.model import CHANGED, Asking, tell
from nodes.middleware.stack import Stack
from nodes.middleware.steps import written_state
from nodes.results import closing_results
from nodes.run_tool import begun
from nodes.state import State, calls_of, last_turn, loop_of, messages_of, open_calls
from nodes.view import TURN

Step = Callable[[State, Runtime[RunContext]], Awaitable[dict[str, Any]]]

_CUT_SHORT = "This call was not carried out: a middleware of this agent ended the turn before it."


def asking(stack: Stack, fields: Fields) -> Step:
    """Return the step that asks the model through the middleware.

    Args:
        stack: the agent's middleware.
        fields: channels that there are beside ours.
    """

    async def call_model(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Send the conversation and return the turn, which may still change.

        Raises:
            MiddlewareFailed: a middleware raised, or gave what it may not.
            RunError: as the step of agents without middleware does.
        """
        ctx, loop, message_id = begin_turn(state, runtime)
        try:
            asked = await Asking(stack, state, runtime, loop).turn(message_id)
        except ContextOverflow:
            return overflowed(ctx, loop, message_id)
        fault("llm.reply.before_save")
        answered(asked.turn, loop)
        again = None if asked.further else unanswered(asked.turn, ctx, loop)
        if again is not None:
            return again
        known = messages_of(state)
        loop |= {"untold": message_id, "before": str(known[-1].id) if known else ""}
        update = written_state("wrap_model_call", asked.update, fields, state)
        return {**update, "messages": [asked.turn, *asked.further], "loop": loop, "decisions": {}}

    return call_model


async def judge(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Let a turn stand: show what was held back, and sort the calls that are left."""
    ctx, loop, messages = runtime.context, loop_of(state), messages_of(state)
    told = since(messages, loop["untold"], loop.get("before", ""))
    turns = [one for one in told if isinstance(one, AIMessage)]
    results = {one.tool_call_id for one in told if isinstance(one, ToolMessage)}
    for turn in turns:
        _tell(ctx, turn)
        for call in calls_of(turn):
            if call["id"] in results:
                ctx.emit(begun(call, ctx))
    final = bool(loop["jump"]) and loop["jump"] != "tools"
    open_turn = turns[-1] if turns and not final else None
    closing = _closed(messages if open_turn is None else _all_but_last(told), ctx)
    decisions = {}
    if open_turn is not None:
        left = [call for call in open_turn.tool_calls if call["id"] not in results]
        asked = open_turn.model_copy(update={"tool_calls": left})
        asked, decisions = await sorted_calls(asked, ctx, loop)
        told = [_with_calls(one, asked) if one is open_turn else one for one in told]
    return {
        "messages": [*(_marked(one, told) for one in told), *closing],
        "loop": loop | {"untold": ""},
        "decisions": decisions,
    }


async def end(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """End the run as `finish` does, with a result for each call that a jump left open."""
    closing = _closed(messages_of(state), runtime.context)
    return await finish(state) | ({"messages": closing} if closing else {})


async def sort(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Sort the calls of a turn to which a middleware jumped that stands before the model.

    Raises:
        MiddlewareFailed: there is none.
    """
    ctx, loop, messages = runtime.context, loop_of(state) | {"cut": False}, messages_of(state)
    turn, pending = last_turn(messages), {call["id"] for call in open_calls(messages)}
    if turn is None or not pending:
        raise MiddlewareFailed("A middleware jumped to the tools, and no call waits for them.")
    left = [call for call in turn.tool_calls if call["id"] in pending]
    asked, decisions = await sorted_calls(turn.model_copy(update={"tool_calls": left}), ctx, loop)
    return {"messages": [_with_calls(turn, asked)], "loop": loop, "decisions": decisions}


def _with_calls(turn: AIMessage, asked: AIMessage) -> AIMessage:
    """Return a turn with the arguments that hooks gave to its open calls."""
    changed = {call["id"]: call for call in asked.tool_calls}
    calls = [changed.get(call["id"], call) for call in turn.tool_calls]
    return turn.model_copy(update={"tool_calls": calls})


def _all_but_last(told: Sequence[AIMessage | ToolMessage]) -> Sequence[AnyMessage]:
    """Return what stands before the last turn."""
    last = max(index for index, one in enumerate(told) if isinstance(one, AIMessage))
    return told[:last]


def _closed(messages: Sequence[AnyMessage], ctx: RunContext) -> list[ToolMessage]:
    """Return results for calls that are never carried out, and show that these were asked for."""
    closing = closing_results(messages, _CUT_SHORT)
    turns = {str(one.id): one for one in messages if isinstance(one, AIMessage)}
    for result in closing:
        turn = turns.get(str(result.additional_kwargs.get(TURN)))
        for call in calls_of(turn) if turn is not None else ():
            if call["id"] == result.tool_call_id:
                ctx.emit(begun(call, ctx))
    return closing


def _tell(ctx: RunContext, turn: AIMessage) -> None:
    shown = ctx.drive.memo.pop("shown", None)
    if shown == (turn.id, turn.text):
        return
    ctx.sink.reset(str(turn.id), CHANGED)
    tell(ctx, turn)


def _marked(message: AIMessage | ToolMessage, told: list[AIMessage | ToolMessage]) -> AnyMessage:
    """Return a result that a middleware wrote as one of the turn that asked for it."""
    if isinstance(message, AIMessage) or isinstance(message.artifact, dict):
        return message
    owner = _owner(message, told)
    kwargs: Mapping[str, Any] = message.additional_kwargs
    artifact = {
        "tool": message.name or "",
        "status": "failed" if message.status == "error" else "completed",
        "full": message.text,
        "error": message.text[:400] if message.status == "error" else None,
    }
    marked = {**kwargs, TURN: owner.id} if owner is not None else kwargs
    return message.model_copy(update={"artifact": artifact, "additional_kwargs": marked})


def _owner(message: ToolMessage, told: list[AIMessage | ToolMessage]) -> AIMessage | None:
    for one in told:
        if isinstance(one, AIMessage) and message.tool_call_id in {
            call["id"] for call in calls_of(one)
        }:
            return one
    return None
