"""Carries out one call of a turn; a task of its own for each (EXEC-03)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime

from core.context import RunContext, SubRun
from core.errors import GraphwrightError
from core.events import ToolCall, UpdatedTodoList
from core.faults import fault
from core.log import get_logger
from nodes.delegate import NO_PLAN_MODE, carried_through, sub_run_of
from nodes.hooked_task import given_task, hooked_answer
from nodes.hooking import BROKEN, hooked_outcome
from nodes.journaled import Carry, journaled
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
    return await run_by(carried_out, payload, runtime)


async def run_by(
    carry: Carry, payload: Mapping[str, Any], runtime: Runtime[RunContext]
) -> dict[str, Any]:
    """Do what `run_tool` does, with a way of its own to carry the call out."""
    ctx = runtime.context
    call, decision = payload["call"], payload.get("decision")
    outcome = settled(call, decision)
    sub = sub_run_of(call, payload.get("turn", ""), runtime) if outcome is None else None
    started = ctx.clock.monotonic()
    about = CallContext(ctx, call["id"])
    told: dict[str, Any] = {}
    broken: dict[str, Any] | None = None
    if outcome is not None:
        ctx.emit(begun(call, ctx))
    else:
        outcome, told, broken = await _done(carry, payload, (about, sub), ctx)
        about.close()
        if broken is None:
            outcome, broken = await hooked_outcome(call, outcome, ctx)
        fault("tool.after.before_save")
    spent = int((ctx.clock.monotonic() - started) * 1000)
    message = await _message(payload, outcome, spent, ctx)
    if told:
        message.artifact["sub"] = told
    if about.components:
        message.artifact["components"] = about.components
    if broken is not None:
        message.artifact[BROKEN] = broken
    update: dict[str, Any] = {"messages": [message]}
    if about.todos is not None and outcome.status == "completed":
        ctx.emit(UpdatedTodoList(todos=about.todos))
        update["todos"] = [todo.model_dump() for todo in about.todos]
    return update


async def _done(
    carry: Carry,
    payload: Mapping[str, Any],
    about: tuple[CallContext, SubRun | Outcome | None],
    ctx: RunContext,
) -> tuple[Outcome, dict[str, Any], dict[str, Any] | None]:
    """Carry the call out.

    Returns:
        How it ended, what is told of a sub-run's end, and a hook of sub-runs that failed.
    """
    use, sub = about
    if not (isinstance(sub, SubRun) and sub.resumed):
        ctx.emit(begun(payload["call"], ctx))
    if isinstance(sub, SubRun):
        return await _delegated(payload, sub, ctx)
    if sub is not None:
        return sub, {}, None
    fault("tool.before")
    return await journaled(carry, payload, use, ctx), {}, None


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


def begun(call: Mapping[str, Any], ctx: RunContext) -> ToolCall:
    """Return the event with which a call begins."""
    spec = ctx.tools.get(call["name"])
    return ToolCall(
        tool=call["name"],
        cn_tool=spec.label if spec else call["name"],
        args=call["args"],
        agent_id=ctx.agent.name,
        tool_call_id=call["id"],
    )


async def carried_out(payload: Mapping[str, Any], about: CallContext, ctx: RunContext) -> Outcome:
    """Call the tool, where nothing speaks against it by now."""
    call = payload["call"]
    refused = forbidden(call["name"], payload, ctx)
    if refused is not None:
        return refused
    outcome = await carry_out(
        ctx.tools[call["name"]], call["args"], about, timeout=ctx.limits.tool_timeout
    )
    return noted(outcome, payload)


def forbidden(name: str, payload: Mapping[str, Any], ctx: RunContext) -> Outcome | None:
    """Return the outcome of a call that must not run now, or None where it may."""
    spec = ctx.tools.get(name)
    if spec is None:
        return failed(f"There is no tool {name[:80]!r} any more.")
    if plan_forbids(spec, ctx, loop_of(payload)):
        return failed(PLAN_MODE.format(name=spec.name), "denied")
    return None


async def _delegated(
    payload: Mapping[str, Any], sub: SubRun, ctx: RunContext
) -> tuple[Outcome, dict[str, Any], dict[str, Any] | None]:
    """Let another agent carry the call out.

    Returns:
        How the call ended, what is told of the agent's end, and the hook that failed.
    """
    agent, mode = sub.context.agent, sub.context.mode
    approved = bool(loop_of(payload)["plan_approved"])
    if agent.graph is not None and mode == "plan" and not approved:
        return failed(NO_PLAN_MODE.format(label=agent.label), "denied"), {}, None
    told: dict[str, Any] = {}
    call, outcome, broken = await given_task(sub, payload["call"], ctx)
    if outcome is None:
        outcome, told = await carried_through(sub, call, plan_approved=approved)
        outcome, broken = await hooked_answer(sub, outcome, ctx)
    return noted(outcome, payload), told, broken


def noted(outcome: Outcome, payload: Mapping[str, Any]) -> Outcome:
    """Let the model know where the user changed the arguments."""
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
