"""Runs a plain function beside the event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call the function in a new daemon thread and return what it returns.

    A thread cannot be stopped from outside. Each call has its own, so that a function which
    never returns takes no seat of a pool away from others, and does not hold the process at
    its end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))

    def work() -> None:
        value, error = None, None
        try:
            value = context.run(function)
        except BaseException as problem:  # boundary: handed over to the caller
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="tool", daemon=True).start()
    value, error = await done
    if error is not None:
        raise error
    return value
