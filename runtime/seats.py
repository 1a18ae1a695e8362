"""How many runs a script has under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

_seated: Final[ContextVar[bool]] = ContextVar("graphwright_seated", default=False)
"""Whether the work that is going on belongs to a run that has a seat."""


class Seats:
    """One for each run; what a run begins itself, by a tool that calls `execute`, sits with it.

    Otherwise runs that wait for the runs they began would take all the seats that those need.
    """

    def __init__(self, places: int) -> None:
        self._free = asyncio.Semaphore(places)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Hold a seat for as long as the block lasts; waits for a free one."""
        if _seated.get():
            yield
            return
        async with self._free:
            before = _seated.set(True)
            try:
                yield
            finally:
                _seated.reset(before)
