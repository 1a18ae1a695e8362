"""Waits for asynchronous code of an extension: a time limit, and no way to stop the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

_GRACE: Final = 1.0
"""Seconds that cancelled code has to end before it is left alone."""


async def result_of(
    start: Callable[[], Awaitable[Any]], seconds: float
) -> tuple[Any, BaseException | None]:
    """Return what it returned, or what it raised.

    It has a task of its own, because code that swallows its cancellation would otherwise hold
    the run for ever.

    Raises:
        TimeoutError: it did not end in time.
    """
    task = asyncio.create_task(_caught(start))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task)
        raise
    if not done:
        await _stop(task)
        raise TimeoutError
    return task.result()


async def _caught(start: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    try:
        return await start(), None
    except BaseException as problem:  # boundary: SystemExit in a task would stop the event loop
        return None, problem


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=_GRACE)
