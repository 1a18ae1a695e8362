"""`graphwright serve`: from the first check to the last goodbye, with workers where they are asked for."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    closing,
    nullcontext,
    suppress,
)
from typing import Final

from core.clock import SystemClock
from core.log import get_logger
from core.settings import Loaded, Settings
from runtime.preload import graphs_loaded
from server import bootstrap, listen, place, web
from server.signals import told_to_end
from server.workforce import workforce

log = get_logger(__name__)

ENDING_SECONDS: Final = 20.0
"""Seconds beyond drain and handover that worker processes have to end."""


async def serve(loaded: Loaded) -> None:
    """Run until a signal comes, then let running work end and close everything in order.

    Raises:
        ConfigError: settings, extensions or the address have faults; nothing was started.
        Unavailable: the database cannot be reached.
    """
    settings = loaded.settings
    listen.check_address(settings.host, settings.auth_mode)
    opened = asyncio.Event()
    with closing(listen.bind(settings.host, settings.port)) as taken:
        async with told_to_end() as end:
            work = asyncio.create_task(_run(loaded, taken, opened, end), name="serve")
            ended = asyncio.create_task(end.wait())
            await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if end.is_set() and not opened.is_set():
                # A start may wait for minutes, for example for the database's recovery.
                log.info("ending before the start is over; what was opened is closed")
                work.cancel()
            with suppress(asyncio.CancelledError):
                await work


async def _run(
    loaded: Loaded, taken: socket.socket, opened: asyncio.Event, end: asyncio.Event
) -> None:
    clock, settings = SystemClock(), loaded.settings
    async with bootstrap.opened(loaded, clock) as product, AsyncExitStack() as workers:
        await workers.enter_async_context(_workers(settings, clock))
        opened.set()
        async with web.serving(product.app, taken, clock):
            url = listen.url_of(taken)
            token = await product.identity.new_login_link()
            # What was loaded stays: it need not be looked through for garbage ever again.
            gc.collect()
            gc.freeze()
            gc.enable()
            with place.noted(settings.data_dir, url):
                announce(url, token, settings)
                warming = asyncio.create_task(_warm(product), name="warm")
                await end.wait()
                warming.cancel()
                await asyncio.gather(warming, return_exceptions=True)
            log.info("ending", extra={"kv": {"drain_seconds": settings.drain_seconds}})
            # Clients keep their streams until their runs have come to rest.
            await product.environment.drain()
            await workers.aclose()
    log.info("ended")


def _workers(settings: Settings, clock: SystemClock) -> AbstractAsyncContextManager[None]:
    """Return what keeps the worker processes; nothing where this process works itself."""
    if not settings.workers:
        return nullcontext()
    arguments = ("--data-dir", str(settings.data_dir))
    return workforce(
        settings.workers,
        arguments,
        settings.drain_seconds + settings.handover_seconds + ENDING_SECONDS,
        clock,
    )


async def _warm(product: bootstrap.Product) -> None:
    """Load what the first message would otherwise have to wait for."""
    await graphs_loaded()
    await product.models.warm()


def announce(url: str, token: str, settings: Settings) -> None:
    """Say that the server serves, and how to get in.

    The line `ready …` is for programs as well. It goes to both streams, unless both end in the
    same place: then once. The link is secret, so it never passes through the log.
    """
    together = _same_place(sys.stdout, sys.stderr)
    if not together or settings.log_format == "json":
        log.info("ready %s", url)
    lines = [] if together and settings.log_format == "json" else [f"ready {url}"]
    lines += [f"Sign in (works once, for 15 minutes): {url}/login?token={token}"]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _same_place(one: object, other: object) -> bool:
    try:
        places = [os.fstat(stream.fileno()) for stream in (one, other)]  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return os.path.samestat(*places)
