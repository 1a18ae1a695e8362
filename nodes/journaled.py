"""Carries out calls that may change something so that none of them happens twice (EXEC-35).

The journal notes that a call begins, then how it ended. A run that goes on after a crash finds
there what became of it: an end is used again; a call that began and is safe to repeat begins
again; about any other a person is asked, because it may have happened.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt

from core.context import RunContext
from core.events import ApprovalCall, Todo
from core.faults import fault
from core.tooling import ToolSpec
from nodes import cards
from nodes.results import result_id
from tools.context import CallContext
from tools.result import Outcome, completed, failed

ALWAYS: Final = sys.maxsize >> 1
"""Earlier beginnings after which a call that is safe to repeat may begin once more."""

IT_MAY = (
    "It may have happened: the server stopped while this was carried out. Look whether it did. "
    "Approve to carry it out once more, reject to leave it, respond to say how it went."
)
LEFT = (
    "The server stopped while this was carried out, so it may have happened or not. The user "
    "chose not to carry it out again."
)

Carry = Callable[[Mapping[str, Any], CallContext, RunContext], Awaitable[Outcome]]
"""Carries a call out that is to run; raises nothing but the run's own cancellation."""


async def journaled(
    carry: Carry, payload: Mapping[str, Any], about: CallContext, ctx: RunContext
) -> Outcome:
    """Carry a call out, or return how it ended before.

    Args:
        carry: does it.
        payload: the call and what belongs to it; see `nodes.run_tool`.
        about: what the tool may use.
        ctx: the run.

    Raises:
        GraphBubbleUp: a person is asked first.
        RunLost: the run is carried out by somebody else now.
    """
    call = payload["call"]
    spec = ctx.tools.get(call["name"])
    if spec is None or spec.side_effect == "none":
        return await carry(payload, about, ctx)
    key = result_id(str(payload.get("turn", "")), call["id"])
    ended = await _begun(key, spec, call, ctx)
    if ended is not None:
        return _restored(ended, about) if isinstance(ended, Mapping) else ended
    fault("tool.begun")
    try:
        outcome = await carry(payload, about, ctx)
    except GraphBubbleUp:
        # The tool itself, or what stands around it, asks first: it begins anew with the answer.
        await ctx.calls.withdraw(key)
        raise
    fault("tool.done.before_journal")
    await ctx.calls.end(key, _recorded(outcome, about))
    return outcome


async def _begun(
    key: str, spec: ToolSpec, call: Mapping[str, Any], ctx: RunContext
) -> Mapping[str, Any] | Outcome | None:
    """Note that the call begins and return None, or return what stands in its place.

    A question is asked for each time that the call began before, in order: LangGraph answers
    those that a person has answered already, whatever happened since.
    """
    agreed = ALWAYS if spec.idempotent else 0
    while True:
        before = await ctx.calls.begin(key, spec.name, agreed=agreed)
        if before.outcome is not None:
            return before.outcome
        if before.starts <= agreed:
            return None
        decision = _asked(spec, call, ctx)
        match decision["type"]:
            case "approve":
                agreed += 1
            case "respond":
                outcome = completed(str(decision.get("message") or ""))
                outcome.meta["note"] = "The user said how the call went; its own result was lost."
                return outcome
            case _:
                reason = str(decision.get("message") or "none was given.")
                return failed(f"{LEFT} Reason: {reason}")


def _asked(spec: ToolSpec, call: Mapping[str, Any], ctx: RunContext) -> dict[str, Any]:
    asked = ApprovalCall(
        tool_call_id=call["id"],
        tool=spec.name,
        args=call["args"],
        reason=IT_MAY,
        side_effect=spec.side_effect,
        allowed_decisions=["approve", "reject", "respond"],
    )
    card = cards.decisions_card([asked], [spec.label])
    card |= {"message": f"It is not known whether this happened: {spec.label}"}
    value = interrupt(cards.asked_by(card, ctx))
    return cards.read_decisions(value, [call])[call["id"]]


def _recorded(outcome: Outcome, about: CallContext) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "data": outcome.data,
        "error": outcome.error,
        "sources": list(outcome.sources),
        "meta": outcome.meta,
        "todos": None if about.todos is None else [todo.model_dump() for todo in about.todos],
        "components": about.components,
    }


def _restored(kept: Mapping[str, Any], about: CallContext) -> Outcome:
    if kept["todos"] is not None:
        about.todos = [Todo.model_validate(todo) for todo in kept["todos"]]
    about.components = list(kept["components"])
    return Outcome(
        kept["status"], kept["data"], kept["error"], tuple(kept["sources"]), dict(kept["meta"])
    )
