"""Carries out one call of a turn; a task of its own for each (EXEC-03)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import GraphwrightError
from core.events import ToolCall, UpdatedTodoList
from core.faults import fault
from core.log import get_logger
from nodes.hooking import BROKEN, hooked_outcome
from nodes.observe import fingerprint
from nodes.results import result_id, result_message
from nodes.sorting import PLAN_MODE, plan_forbids
from nodes.state import loop_of
from nodes.tokens import usable_window
from nodes.view import SHORT
from tools.carry_out import carry_out
from tools.context import CallContext
from tools.result import Outcome, completed, failed

HINT = (
    "This very call gave this very result before. Repeating it brings nothing new; use what you "
    "have or try something else."
)

_log = get_logger(__name__)


async def run_tool(payload: Mapping[str, Any], runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Carry out the call, or say why not. Ends with exactly one result, whatever the tool does.

    Args:
        payload: `call`, the `decision` about it, and from the state `turn`, `loop`, `before`.
        runtime: carries the run.
    """
    ctx = runtime.context
    call, decision = payload["call"], payload.get("decision")
    ctx.emit(_begun(call, ctx))
    started = ctx.clock.monotonic()
    about = CallContext(ctx, call["id"])
    broken: dict[str, Any] | None = None
    outcome = settled(call, decision)
    if outcome is None:
        fault("tool.before")
        outcome = await _carried_out(payload, about, ctx)
        outcome, broken = await hooked_outcome(call, outcome, ctx)
        fault("tool.after.before_save")
    spent = int((ctx.clock.monotonic() - started) * 1000)
    message = await _message(payload, outcome, spent, ctx)
    if about.components:
        message.artifact["components"] = about.components
    if broken is not None:
        message.artifact[BROKEN] = broken
    update: dict[str, Any] = {"messages": [message]}
    if about.todos is not None and outcome.status == "completed":
        ctx.emit(UpdatedTodoList(todos=about.todos))
        update["todos"] = [todo.model_dump() for todo in about.todos]
    return update


def settled(call: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Outcome | None:
    """Return the outcome of a call that is not to run, or None where it is."""
    given = decision or {"type": "approve"}
    reason = str(given.get("message") or "").strip()
    match given["type"]:
        case "refused":
            outcome = failed(reason, given["status"])
        case "reject":
            text = "The user rejected this call; it was not carried out."
            outcome = failed(f"{text} Reason: {reason or 'none was given.'}", "denied")
        case "respond":
            outcome = completed(reason)
            outcome.meta["note"] = "The call was not carried out; the user answered it instead."
        case "answer":
            outcome = completed({"answers": given["answers"]})
        case "plan_approve":
            outcome = _plan_approved(given, reason)
        case "plan_reject":
            text = "The user did not approve this plan."
            outcome = failed(f"{text} Reason: {reason or 'none was given.'}", "denied")
        case _:
            broken = failed("The arguments of this call were not a JSON object.")
            outcome = broken if "invalid" in call else None
    return outcome


def _plan_approved(given: Mapping[str, Any], reason: str) -> Outcome:
    data = {"approved": True, "plan": given["plan"]}
    if given["edited"]:
        data["note"] = "The user changed the plan; follow it as it stands here."
    if reason:
        data["message"] = reason
    return completed(data)


def _begun(call: Mapping[str, Any], ctx: RunContext) -> ToolCall:
    spec = ctx.tools.get(call["name"])
    return ToolCall(
        tool=call["name"],
        cn_tool=spec.label if spec else call["name"],
        args=call["args"],
        agent_id=ctx.agent.name,
        tool_call_id=call["id"],
    )


async def _carried_out(payload: Mapping[str, Any], about: CallContext, ctx: RunContext) -> Outcome:
    call = payload["call"]
    spec = ctx.tools.get(call["name"])
    if spec is None:
        return failed(f"There is no tool {call['name'][:80]!r} any more.")
    if plan_forbids(spec, ctx, loop_of(payload)):
        return failed(PLAN_MODE.format(name=spec.name), "denied")
    outcome = await carry_out(spec, call["args"], about, timeout=ctx.limits.tool_timeout)
    if (payload.get("decision") or {}).get("type") == "edit":
        outcome.meta["edited"] = "The user changed the arguments before the call was carried out."
    return outcome


async def _message(
    payload: Mapping[str, Any], outcome: Outcome, spent: int, ctx: RunContext
) -> ToolMessage:
    call = payload["call"]
    turn_id = payload.get("turn", "")
    message_id = result_id(turn_id, call["id"])
    whole = None
    # One character a token is the worst case: no result alone may fill a small window.
    limit = min(ctx.limits.result_chars, max(usable_window(ctx), SHORT))
    if len(outcome.full) > limit:
        whole = await _stored(message_id, outcome.full, ctx)
    message = result_message(
        turn_id,
        call,
        outcome,
        limit=limit,
        duration_ms=spent,
        whole=whole,
    )
    before = payload.get("before")
    if (
        before
        and before["count"] + 1 >= ctx.limits.repeat_hint
        and fingerprint(message) == before["result"]
    ):
        message.content = _hinted(str(message.content))
    return message


def _hinted(content: str) -> str:
    body = json.loads(content)
    body["meta"]["hint"] = HINT
    return json.dumps(body, ensure_ascii=False)


async def _stored(message_id: str, text: str, ctx: RunContext) -> str | None:
    """Keep a long result whole where the agent can read it; None where that failed."""
    try:
        return f"read_file {await ctx.archive.keep(message_id, text)}"
    except (GraphwrightError, OSError):
        _log.warning("long result not stored", exc_info=True)
        return None
