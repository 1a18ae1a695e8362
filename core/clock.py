"""Time as a port: the system's, and one that tests move by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the product knows of time."""

    def now(self) -> datetime:
        """Return the present moment, with zone UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        ...


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        """Return the present moment, with zone UTC."""
        return datetime.now(UTC)  # noqa: TID251 - the one place that asks the machine

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds."""
        await asyncio.sleep(seconds)  # noqa: TID251 - the one place that waits


class FakeClock:
    """Stands still until `advance`; wakes sleepers in order of their time."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._passed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the start plus what was advanced."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody advanced the clock that far."""
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + max(seconds, 0), next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move on by that many seconds, letting each sleeper run at its own time."""
        until = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            self._passed, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            for _ in range(5):
                await asyncio.sleep(0)  # noqa: TID251 - lets the woken task reach its next wait
        self._passed = until
