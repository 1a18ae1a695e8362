"""Sorts the calls of a turn: which may run, which must be asked about, which are refused."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from core.context import RunContext
from core.errors import ToolArgumentsInvalid
from core.tooling import DELEGATE, ToolSpec
from nodes.delegate import NESTED, SPENT, over_the_limit

TRUNCATED = (
    "This turn hit the output limit, so none of its calls was carried out. Issue them again in "
    "smaller pieces: fewer calls in one turn, shorter arguments, long texts in several parts."
)
PLAN_MODE = (
    "This conversation is in plan mode and no plan is approved yet, so {name} was not carried "
    "out. Submit a plan with request_plan_approval first."
)
REPEATED = (
    "This very call was made {count} times already and its result never changed, so it was not "
    "carried out again. Use the result you have, or try something else."
)

MOST_APPROVALS = 200
MOST_QUESTIONS = 90
"""What one card asks about at most; a person could not answer more, and neither could a form."""
SECOND_PLAN = "Submit one plan at a time; another plan of this turn is being decided."
CROWDED = (
    "Too many calls of this turn wait for the user, so this one was not carried out. Issue it "
    "again in a later turn."
)


def signature(name: str, args: Mapping[str, Any]) -> str:
    """Return a short text that is equal for equal calls."""
    text = json.dumps([name, args], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def refusal(
    call: Mapping[str, Any], ctx: RunContext, loop: Mapping[str, Any], *, truncated: bool = False
) -> tuple[str, str] | None:
    """Return the status and message of a call that must not run, or None.

    Args:
        call: as `nodes.state.calls_of` gives it.
        ctx: the run.
        loop: the run's counters.
        truncated: whether the turn was stopped by the output limit.
    """
    if truncated:
        return "failed", TRUNCATED
    if "invalid" in call:
        return "failed", _unreadable(call)
    spec = ctx.tools.get(call["name"])
    if call["name"] == DELEGATE and ctx.agent_id:
        return "denied", NESTED
    if spec is None or spec.name not in ctx.agent.tools:
        return "failed", _unknown(call["name"], ctx)
    if plan_forbids(spec, ctx, loop):
        return "denied", PLAN_MODE.format(name=spec.name)
    return _repeated(call, ctx, loop) or _misfit(call, spec)


def _repeated(
    call: Mapping[str, Any], ctx: RunContext, loop: Mapping[str, Any]
) -> tuple[str, str] | None:
    before = loop["seen"].get(signature(call["name"], call["args"]))
    if before and before["count"] >= ctx.limits.repeat_refuse - 1:
        return "denied", REPEATED.format(count=before["count"])
    return None


def _misfit(call: Mapping[str, Any], spec: ToolSpec) -> tuple[str, str] | None:
    try:
        spec.validate(call["args"])
    except ToolArgumentsInvalid as problem:
        return "failed", problem.message
    return None


def plan_forbids(spec: ToolSpec, ctx: RunContext, loop: Mapping[str, Any]) -> bool:
    """Tell whether plan mode keeps this tool from running (EXEC-07)."""
    return ctx.mode == "plan" and spec.side_effect != "none" and not loop["plan_approved"]


async def sort_calls(
    calls: list[dict[str, Any]],
    ctx: RunContext,
    loop: dict[str, Any],
    *,
    truncated: bool,
    denied: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the `decisions` of a turn before anybody decided; counts in `loop` what is limited.

    Calls in `denied` are refused already.

    It is written into the state with the turn itself, because `approve` runs again from its
    beginning after each answer and must then see the same calls, even if a grant was given
    meanwhile.
    """
    refused: dict[str, Any] = {}
    approval: list[str] = []
    question: list[str] = []
    plan: list[str] = []
    granted = await _granted(calls, ctx)
    room = MOST_QUESTIONS
    for call in calls:
        problem = refusal(call, ctx, loop, truncated=truncated) or denied.get(call["id"])
        if problem:
            refused[call["id"]] = {"status": problem[0], "message": problem[1]}
            continue
        spec = ctx.tools[call["name"]]
        if over_the_limit(spec, loop):
            refused[call["id"]] = {"status": "failed", "message": SPENT}
        elif spec.kind == "question":
            room -= len(call["args"]["questions"])
            _queue(call["id"], question, refused, CROWDED if room < 0 else "")
        elif spec.kind == "plan":
            _queue(call["id"], plan, refused, SECOND_PLAN if plan else "")
        elif asks_first(spec, ctx) and spec.name not in granted:
            _queue(
                call["id"], approval, refused, CROWDED if len(approval) >= MOST_APPROVALS else ""
            )
    return {
        "refused": refused,
        "approval": approval,
        "question": question,
        "plan": plan,
        "answers": {},
        "send": [],
        "freed": False,
    }


def _queue(call_id: str, waiting: list[str], refused: dict[str, Any], problem: str) -> None:
    """Let a call wait for a person, or refuse it."""
    if problem:
        refused[call_id] = {"status": "failed", "message": problem}
    else:
        waiting.append(call_id)


def asks_first(spec: ToolSpec, ctx: RunContext) -> bool:
    """Tell whether anything asks for approval of this tool (EXEC-23), grants left aside."""
    return (
        spec.requires_approval
        or spec.name in ctx.approval_tools
        or spec.name in ctx.agent.approval_tools
    )


async def _granted(calls: list[dict[str, Any]], ctx: RunContext) -> frozenset[str]:
    guarded = any(
        call["name"] in ctx.tools and asks_first(ctx.tools[call["name"]], ctx) for call in calls
    )
    if not guarded:
        return frozenset()
    return await ctx.grants.granted(ctx.principal, ctx.session_id)


def _unreadable(call: Mapping[str, Any]) -> str:
    return (
        f"This call was not carried out: {call['invalid']} Its arguments began with: "
        f"{call['raw'][:200]!r}. Issue it again with one JSON object as arguments."
    )


def _unknown(name: str, ctx: RunContext) -> str:
    nearest = difflib.get_close_matches(name, ctx.agent.tools, n=1)
    hint = f"Did you mean {nearest[0]}? " if nearest else ""
    return (
        f"There is no tool {name[:80]!r}. {hint}You have: {', '.join(ctx.agent.tools) or 'none'}."
    )
