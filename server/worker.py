"""`graphwright worker`: carries out runs, beside any number of servers and other workers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from typing import Any

from core.clock import SystemClock
from core.log import get_logger
from core.settings import Loaded
from runtime.preload import graphs_loaded
from server import bootstrap
from server.signals import told_to_end

log = get_logger(__name__)


async def work(loaded: Loaded, *, with_parent: bool = False) -> None:
    """Carry out runs until a signal comes, then let those under way end or hand them over.

    Args:
        loaded: the settings.
        with_parent: end, too, once standard input is closed: whoever started this has gone.

    Raises:
        ConfigError: settings or extensions have faults; nothing was started.
        Unavailable: the database cannot be reached.
    """
    async with told_to_end() as end:
        working = asyncio.create_task(_work(loaded, end), name="worker")
        watching: list[asyncio.Task[Any]] = [asyncio.create_task(end.wait())]
        if with_parent:
            watching.append(asyncio.create_task(_parent_gone(end), name="parent"))
        await asyncio.wait([working, *watching], return_when=asyncio.FIRST_COMPLETED)
        if not end.is_set():
            await working  # it ended by itself: by an error of the start
        await asyncio.wait([working])
        for task in watching:
            task.cancel()
        await working


async def _work(loaded: Loaded, end: asyncio.Event) -> None:
    async with bootstrap.runtime(loaded, SystemClock(), kind="worker") as parts:
        warming = asyncio.create_task(_warm(parts), name="warm")
        gc.collect()
        gc.freeze()
        gc.enable()
        log.info("ready", extra={"kv": {"seats": parts.environment.worker.seats}})
        sys.stdout.write(f"working {os.getpid()}\n")
        sys.stdout.flush()
        await end.wait()
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        log.info("ending", extra={"kv": {"drain_seconds": loaded.settings.drain_seconds}})
        await parts.environment.worker.stop()
    log.info("ended")


async def _warm(parts: bootstrap.Parts) -> None:
    """Load what the first run would otherwise have to wait for."""
    await graphs_loaded()
    await parts.models.warm()


async def _parent_gone(end: asyncio.Event) -> None:
    """Notice that the pipe of whoever started this was closed, however that process ended."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    with contextlib.suppress(OSError, ValueError):
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.read(1024):
            pass
    end.set()
