"""Where a run passes the hooks of extensions as a whole: before it begins, and once it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import HumanMessage

from core.bounds import Bounds
from core.context import Limits
from core.errors import HookError, HookRefused, ToolDenied
from core.hooks import HookRun, Hooks, RunEnd, RunStart
from core.log import get_logger
from core.records import RunRecord
from core.registry import Assembly
from runtime.ledger import Ledger
from tools.hooks import RunHooks

log = get_logger(__name__)


def run_hooks(assembly: Assembly, run: RunRecord, user: str, agent: str = "") -> Hooks:
    """Return the hooks that a run calls, or a sub-run of another agent in it."""
    about = HookRun(
        run_id=run.id,
        session_id=run.session_id,
        trace_id=run.trace_id,
        workspace_id=run.workspace_id,
        user_id=run.user_id,
        user=user,
        agent=agent or run.agent,
        mode=run.mode,
    )
    return RunHooks(assembly.hooks, about)


def bounds_of(limits: Limits, ledger: Ledger) -> Bounds:
    """Return what a request of this run may take, whatever hooks make of it."""

    def left() -> int | None:
        total = ledger.total()
        return limits.tokens - total.input_tokens - total.output_tokens if limits.tokens else None

    return Bounds(limits.context_limit, left, ledger.add)


async def admitted(message: HumanMessage, hooks: Hooks) -> HumanMessage:
    """Return the message that a run begins with, as hooks at `run.before` want it.

    Raises:
        HookRefused: a hook does not let it begin.
        HookError: a hook failed that is to end the run.
    """
    event = RunStart(run=hooks.run, message=str(message.text))
    try:
        changed = await hooks.apply(event)
    except ToolDenied as refused:
        raise HookRefused(refused.message) from refused
    if changed.message == event.message:
        return message
    return message.model_copy(update={"content": changed.message})


async def told_of_failure(hooks: Hooks, end: RunEnd) -> None:
    """Tell hooks at `run.after` of a run that failed; it has its error, so theirs is only logged."""
    try:
        await hooks.apply(end)
    except HookError as problem:
        log.warning("a hook failed about a failed run: %s", problem.message)


def code_of(assembly: Assembly, agent: str) -> Mapping[str, Any]:
    """Return fingerprints of what extensions put into runs of an agent (EXEC-42).

    Those of agents that it may give tasks to are among them.
    """
    spec = assembly.agents.get(agent)
    names = (agent, *(spec.delegates if spec else ()))
    specs = [assembly.agents[name] for name in names if name in assembly.agents]
    hooks = [one for one in assembly.hooks if any(map(one.concerns, names))]
    chosen = [assembly.policies.get(item) for one in specs for item in one.policies.items()]
    return {
        "hooks": {f"{one.extension}.{one.name}@{one.point}": one.fingerprint for one in hooks},
        "policies": {f"{one.kind}.{one.name}": one.fingerprint for one in chosen if one},
    }
