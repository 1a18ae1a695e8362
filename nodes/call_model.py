"""Asks the model once and sorts what it wants done."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import (
    ContextExhausted,
    ContextOverflow,
    OutputTruncated,
    ProviderJunk,
    ProviderRefused,
)
from core.events import Progress, Thinking
from core.faults import fault
from core.ids import derived_id
from nodes.asking import count_usage, request_size, schemas_of
from nodes.budgets import check_budgets
from nodes.hooking import hooked_request, sorted_turn
from nodes.state import State, calls_of, loop_of
from nodes.tokens import usable_window

CUT = "The answer hit the model's output limit and is not complete. Ask it to go on."

_TRUNCATED_TURNS = 3
_EMPTY_TURNS = 2


async def call_model(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Send the conversation and return the model's turn.

    Raises:
        LimitReached: a budget of the run is used up (EXEC-09).
        ContextExhausted: the conversation does not fit, even after summarising.
        OutputTruncated: three turns in a row hit the output limit in their calls.
        ProviderError: the provider failed.
    """
    ctx, loop, message_id = begin_turn(state, runtime)
    try:
        request = await hooked_request(state, ctx)
        answer = await ctx.model.ask(
            request, tools=schemas_of(ctx), message_id=message_id, sink=ctx.sink
        )
    except ContextOverflow:
        return overflowed(ctx, loop, message_id)
    fault("llm.reply.before_save")
    loop["tokens"] += count_usage(ctx, "turn", request, answer)
    answered(answer, loop)
    again = unanswered(answer, ctx, loop)
    if again is not None:
        return again
    turn, decisions = await sorted_calls(answer, ctx, loop)
    return {"messages": [turn], "loop": loop, "decisions": decisions}


def begin_turn(
    state: State, runtime: Runtime[RunContext]
) -> tuple[RunContext, dict[str, Any], str]:
    """Check the budgets, say that the model thinks, and count the turn.

    Returns:
        The run, its counters, and the id of the turn's message.
    """
    ctx = runtime.context
    loop = loop_of(state)
    check_budgets(ctx, loop)
    if loop["summary_failed"] and request_size(state, ctx) > usable_window(ctx):
        raise ContextExhausted
    ctx.emit(Thinking(message="Thinking", cn_agent=ctx.agent.label))
    loop["steps"] += 1
    loop["model_calls"] += 1
    info = runtime.execution_info
    message_id = derived_id(ctx.run_id, info.task_id if info else "")
    if ctx.attempt > 1 and not ctx.drive.asked:
        # The attempt before this one may have shown text of this very turn.
        ctx.sink.reset(message_id, "The turn is repeated after an interruption.")
    ctx.drive.asked = True
    return ctx, loop, message_id


def overflowed(ctx: RunContext, loop: dict[str, Any], message_id: str) -> dict[str, Any]:
    """Return the update that lets a request be shortened which was too long.

    Raises:
        ContextExhausted: it was shortened already, or must not be.
    """
    if loop["overflow"] == "summarised" or not ctx.limits.compact:
        raise ContextExhausted from None
    # Some servers notice in the middle of the answer.
    ctx.sink.reset(message_id, "The conversation is too long and is shortened first.")
    return {"loop": loop | {"overflow": "told"}}


def answered(answer: AIMessage, loop: dict[str, Any]) -> None:
    """Note what the provider told with an answer."""
    metadata = answer.response_metadata
    # The provider's adapter tells a cut turn also where the server relabels it (L12).
    loop["cut"] = bool(metadata.get("truncated")) or metadata.get("finish_reason") == "length"
    loop["overflow"] = ""
    loop["context_tokens"] = _context_tokens(answer)


def unanswered(answer: AIMessage, ctx: RunContext, loop: dict[str, Any]) -> dict[str, Any] | None:
    """Return the update by which an empty turn is asked anew; None for any other turn.

    Raises:
        OutputTruncated: the output limit was used up before anything was said.
        ProviderJunk: the second empty turn in a row.
        ProviderRefused: a content filter cut the answer.
    """
    cut, calls = loop["cut"], calls_of(answer)
    if not calls and not answer.text.strip():
        loop["empty"] += 1
        if loop["empty"] < _EMPTY_TURNS:
            # It is not kept, so nobody may go on seeing its reasoning or blanks.
            ctx.sink.reset(str(answer.id), "The answer was empty; the model is asked again.")
            return {"loop": loop, "decisions": {}}
        if cut:
            raise OutputTruncated("The model used up its output limit before it answered.")
        raise ProviderJunk(f"{ctx.model.provider} gave an empty answer twice in a row.")
    if not calls and answer.response_metadata.get("filtered"):
        raise ProviderRefused(f"The content filter of {ctx.model.provider} cut the answer short.")
    loop["empty"] = 0
    return None


async def sorted_calls(
    turn: AIMessage, ctx: RunContext, loop: dict[str, Any]
) -> tuple[AIMessage, dict[str, Any]]:
    """Return a turn as it is stored, and how its calls are sorted.

    Says where a turn without any was cut.
    """
    cut, calls = loop["cut"], calls_of(turn)
    if cut and not calls:
        ctx.emit(Progress(message=CUT))
    loop["truncated"] = loop["truncated"] + 1 if cut and calls else 0
    return await sorted_turn(turn, ctx, loop, truncated=cut)


def too_often_truncated(loop: dict[str, Any]) -> bool:
    """Tell whether so many turns in a row were cut that going on makes no sense."""
    return loop["truncated"] >= _TRUNCATED_TURNS


def _context_tokens(answer: AIMessage) -> int:
    usage = answer.usage_metadata
    return usage["input_tokens"] + usage["output_tokens"] if usage else 0
