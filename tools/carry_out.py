"""Carries out one tool call: checks, time limit, and whatever the function does, as an outcome.

Nothing a tool does ends the run: neither exceptions of any kind nor results of any kind or size.
A question that it asks by LangGraph's `interrupt` reaches the user, and its answer the tool.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from langgraph.errors import GraphBubbleUp

from core.errors import RequestError, ToolDenied, ToolError, ToolFailed, ToolTimeout
from core.log import get_logger
from core.tooling import ToolContext, ToolSpec
from tools.result import Outcome, completed, failed, told
from tools.threads import in_thread

_GRACE = 1.0
"""Seconds a cancelled tool has to end before it is left alone."""

_log = get_logger(__name__)


async def carry_out(
    spec: ToolSpec, args: Mapping[str, Any], ctx: ToolContext, *, timeout: float
) -> Outcome:
    """Call the tool and return how it ended. Raises nothing but the run's own cancellation.

    Args:
        spec: the tool.
        args: unchecked arguments.
        ctx: what the tool may use.
        timeout: seconds for a tool that declares none.
    """
    try:
        return await attempt(spec, args, ctx, timeout=timeout)
    except (ToolError, RequestError) as problem:
        return outcome_of(problem)


async def attempt(
    spec: ToolSpec, args: Mapping[str, Any], ctx: ToolContext, *, timeout: float
) -> Outcome:
    """Call the tool as `carry_out` does.

    Raises:
        ToolError, RequestError: how it failed, fit to be shown to the model.
        GraphBubbleUp: it asks a person.
    """
    return await _within(spec.timeout or timeout, spec, spec.validate(args), ctx)


def outcome_of(problem: ToolError | RequestError) -> Outcome:
    """Return how a call ended that failed."""
    if isinstance(problem, ToolTimeout):
        return failed(problem.message, "timeout")
    return failed(problem.message, "denied" if isinstance(problem, ToolDenied) else "failed")


async def _within(limit: float, spec: ToolSpec, args: dict[str, Any], ctx: ToolContext) -> Outcome:
    """Wait for the tool, but no longer than allowed.

    It has a task of its own, because code that swallows its cancellation would otherwise hold
    the run for ever.
    """
    task = asyncio.create_task(_guarded(spec, args, ctx))
    try:
        done, _ = await asyncio.wait({task}, timeout=limit)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise ToolTimeout(f"{spec.name} did not end within {limit:g} seconds and was stopped.")
    outcome, error = task.result()
    if outcome is not None:
        return outcome
    if isinstance(error, GraphBubbleUp):
        # The tool asks a person itself, by LangGraph's `interrupt`.
        raise error
    if isinstance(error, ToolError | RequestError):
        error.message = told(error)
        raise error
    raise unexpected(spec.name, error, ctx.tool_call_id) from error


async def _guarded(
    spec: ToolSpec, args: dict[str, Any], ctx: ToolContext
) -> tuple[Outcome | None, BaseException | None]:
    """Return the outcome or what was raised: SystemExit in a task would stop the event loop."""
    try:
        value = await spec.call(args, ctx)
        if isinstance(value, BaseException):
            return None, value
        if value is None or isinstance(value, bool | int | float | str):
            return completed(value), None
        # Walking through a large or lazy value takes time, and may run code of the author's.
        return await in_thread(functools.partial(completed, value)), None
    except BaseException as problem:  # boundary: tool code may raise anything
        return None, problem


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)


def unexpected(name: str, error: BaseException | None, call_id: str) -> ToolFailed:
    """Log an exception and return what may be said of it.

    Only its kind is: its text may carry paths or hosts.
    """
    _log.error(
        "tool failed unexpectedly",
        exc_info=error,
        extra={"kv": {"tool": name, "call": call_id}},
    )
    return ToolFailed(
        f"{name} failed unexpectedly ({type(error).__name__}). The details are in the server's "
        "log. Try other arguments or another way."
    )
