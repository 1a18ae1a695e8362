"""Carries out one tool call: checks, time limit, and whatever the function does, as an outcome.

Nothing a tool does ends the run: neither exceptions of any kind nor results of any kind or size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from core.errors import GraphwrightError, ToolDenied, ToolError, ToolTimeout
from core.log import get_logger
from core.tooling import ToolContext, ToolSpec
from tools.result import Outcome, completed, failed

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
    limit = spec.timeout or timeout
    try:
        checked = spec.validate(args)
        value = await _within(limit, spec, checked, ctx)
        return completed(value)
    except ToolTimeout as problem:
        return failed(problem.message, "timeout")
    except ToolDenied as problem:
        return failed(problem.message, "denied")
    except (ToolError, GraphwrightError) as problem:
        return failed(problem.message)
    except Exception:  # boundary: results whose own methods raise
        _log.exception("tool result unusable", extra={"kv": {"tool": spec.name}})
        return failed(_unexpected(spec))


async def _within(limit: float, spec: ToolSpec, args: dict[str, Any], ctx: ToolContext) -> Any:
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
    value, error = task.result()
    if error is None:
        return value
    if isinstance(error, GraphwrightError):
        raise error
    _log.error(
        "tool failed unexpectedly",
        exc_info=error,
        extra={"kv": {"tool": spec.name, "call": ctx.tool_call_id}},
    )
    raise ToolError(_unexpected(spec, error))


async def _guarded(
    spec: ToolSpec, args: dict[str, Any], ctx: ToolContext
) -> tuple[Any, BaseException | None]:
    """Return what the tool returned or raised: SystemExit in a task would stop the event loop."""
    try:
        return await spec.call(args, ctx), None
    except BaseException as problem:  # boundary: tool code may raise anything
        return None, problem


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)


def _unexpected(spec: ToolSpec, error: BaseException | None = None) -> str:
    """Say that it failed, with the kind of the error only: its text may carry paths or hosts."""
    kind = f" ({type(error).__name__})" if error is not None else ""
    return (
        f"{spec.name} failed unexpectedly{kind}. The details are in the server's log. "
        "Try other arguments or another way."
    )
