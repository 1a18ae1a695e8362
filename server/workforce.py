"""Worker processes of one server: started with it, started again when they die, ended with it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from core.clock import Clock
from core.errors import Unavailable
from core.log import get_logger

_MAIN: Final = Path(__file__).resolve().parent.parent / "main.py"
"""The same in a checkout and in an installed package, whatever folder this was started in."""

SOON: Final = 0.5
"""Seconds after which a worker that died is started again; doubled while it dies at once."""

LATEST: Final = 30.0
LONG: Final = 60.0
"""Seconds after which a worker that died counts as one that had worked."""

FIRST_START: Final = 60.0
"""Seconds that workers have for their first start."""

log = get_logger(__name__)


@asynccontextmanager
async def workforce(
    count: int, arguments: Sequence[str], grace: float, clock: Clock
) -> AsyncIterator[None]:
    """Keep that many worker processes for as long as the block lasts.

    Args:
        count: how many.
        arguments: of `graphwright worker`.
        grace: seconds they have to end before they are killed.
        clock: time.

    Raises:
        Unavailable: one of them does not start.
    """
    places = [_Place(arguments, clock) for _ in range(count)]
    tasks = [asyncio.create_task(place.keep(), name="worker process") for place in places]
    try:
        await _all_started(places, tasks)
        yield
    finally:
        for place in places:
            place.ending = True
        await asyncio.gather(*(place.stop(grace) for place in places))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _all_started(places: Sequence[_Place], tasks: Sequence[asyncio.Task[None]]) -> None:
    started = asyncio.gather(*(place.started.wait() for place in places))
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_START):
            await asyncio.wait([started, *tasks], return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        started.cancel()
        raise Unavailable("A worker process did not start; its messages are above.")


class _Place:
    """One worker process after the other."""

    def __init__(self, arguments: Sequence[str], clock: Clock) -> None:
        self._command = (sys.executable, str(_MAIN), "worker", "--with-parent", *arguments)
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self.started = asyncio.Event()
        """Set once the first one works."""
        self.ending = False

    async def keep(self) -> None:
        """Start a process whenever there is none; returns where the first one does not start."""
        wait = SOON
        while not self.ending:
            began = self._clock.monotonic()
            code = await self._run()
            if self.ending or not self.started.is_set():
                return
            if self._clock.monotonic() - began > LONG:
                wait = SOON
            log.warning("a worker process ended with %s; another is started", code)
            await self._clock.sleep(wait)
            wait = min(wait * 2, LATEST)

    async def stop(self, grace: float) -> None:
        """Let the process end in order, or kill it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await process.wait()
            return
        log.warning("a worker process did not end in time and is killed")
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def _run(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,  # its end tells the worker that we are gone
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async for line in process.stdout:
            if line.startswith(b"working "):
                self.started.set()
        return await process.wait()
