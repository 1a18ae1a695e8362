"""The journal of a run's calls, in the database (EXEC-35)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from core.clock import Clock
from core.errors import Unavailable
from core.ids import new_id
from core.log import get_logger
from core.ports import Begun
from core.records import RunRecord
from storage.calls import Beginning
from storage.database import Database
from storage.work import UnitOfWork

log = get_logger(__name__)
T = TypeVar("T")


class RunCalls:
    """Notes the calls of one run under its claim; implements `core.ports.CallJournal`.

    Every note waits for a database that is away: what is known only here must not be lost.
    """

    def __init__(self, database: Database, run: RunRecord, clock: Clock) -> None:
        self._database, self._run, self._clock = database, run, clock
        self._begun: dict[str, Beginning] = {}

    async def begin(self, key: str, tool: str, *, agreed: int) -> Begun:
        """Note that a call begins; see the port."""
        one = self._begun[key] = Beginning(self._run, key, tool, new_id())
        at, keys = self._clock.now(), self._database.keys
        return await self._surely(lambda work: work.calls.begin(one, at, agreed=agreed, keys=keys))

    async def end(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Note how a call ended; see the port."""
        one, at, keys = self._begun[key], self._clock.now(), self._database.keys
        await self._surely(lambda work: work.calls.end(one, outcome, at, keys=keys))

    async def withdraw(self, key: str) -> None:
        """Take the last beginning back; see the port."""
        one = self._begun[key]
        await self._surely(lambda work: work.calls.withdraw(one))

    async def _surely(self, note: Callable[[UnitOfWork], Awaitable[T]]) -> T:
        wait = 0.1
        while True:
            try:
                async with self._database.work() as work:
                    return await note(work)
            except Unavailable as away:
                log.warning("a note about a call waits for the database", exc_info=away)
                await self._clock.sleep(wait)
                wait = min(wait * 2, 5.0)
