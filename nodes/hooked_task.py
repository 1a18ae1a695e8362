"""Where tasks for other agents, and their answers, pass the hooks of extensions (EXT-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langgraph.config import get_config

from core.context import RunContext, SubRun
from core.errors import HookError, ToolArgumentsInvalid, ToolDenied
from core.hook_values import BadChange
from core.hooks import SubRunEnd, SubRunStart
from core.tooling import DELEGATE
from nodes.hooking import broken_by, with_data, withheld
from tools.result import Outcome, failed

_KEPT = "This task was not given to {label}: {reason}"


async def given_task(
    sub: SubRun, call: Mapping[str, Any], ctx: RunContext
) -> tuple[Mapping[str, Any], Outcome | None, dict[str, Any] | None]:
    """Return the call with the task as hooks want it; or why it is not given, and who failed.

    A task that is under way was asked about when it began.
    """
    if not ctx.hooks.wants("sub_run.before") or (sub.resumed and await _under_way(sub)):
        return call, None, None
    args = call["args"]
    event = SubRunStart(run=ctx.hooks.run, agent=sub.context.agent.name, task=args["task"])

    def fits(changed: SubRunStart) -> None:
        try:
            ctx.tools[DELEGATE].validate({**args, "task": changed.task})
        except ToolArgumentsInvalid as problem:
            raise BadChange(f"its task does not do: {problem.message}".rstrip(".")) from None

    try:
        changed = await ctx.hooks.apply(event, fits)
    except ToolDenied as refused:
        return call, failed(refused.message, "denied"), None
    except HookError as problem:
        text = _KEPT.format(label=sub.context.agent.label, reason=problem.message)
        return call, failed(text), broken_by(problem)
    return {**call, "args": {**args, "task": changed.task}}, None, None


async def hooked_answer(
    sub: SubRun, outcome: Outcome, ctx: RunContext
) -> tuple[Outcome, dict[str, Any] | None]:
    """Return what hooks make of the other agent's answer, and which hook failed about it."""
    if not ctx.hooks.wants("sub_run.after"):
        return outcome, None
    event = SubRunEnd(
        run=ctx.hooks.run,
        agent=sub.context.agent.name,
        status=outcome.status,
        text=outcome.full,
    )
    try:
        changed = await ctx.hooks.apply(event)
    except HookError as problem:
        return withheld(outcome, problem), broken_by(problem)
    return (outcome if changed is event else with_data(outcome, changed.text)), None


async def _under_way(sub: SubRun) -> bool:
    """Tell whether the task was given already: a crash may have come between that and its start."""
    state = await sub.graph.aget_state(get_config())
    return bool(state.values)
