"""The one place that claims runs, and the life signs of those who hold them."""

from __future__ import annotations

import asyncio
import os
import platform
from datetime import timedelta
from typing import Any

from core.clock import Clock
from core.errors import Unavailable
from core.faults import fault
from core.log import get_logger
from core.records import InterruptRecord, OwnerRecord, RunRecord
from core.settings import Settings
from core.types import RunStatus
from runtime.queue import Tickets
from storage.database import Database
from storage.work import UnitOfWork

USERS_REMEMBERED = 500
"""Users whose turn is known; one who is not is next."""

log = get_logger(__name__)


class Claims:
    """This process as an owner of runs."""

    def __init__(
        self, database: Database, tickets: Tickets, settings: Settings, clock: Clock
    ) -> None:
        self._database = database
        self._tickets = tickets
        self._settings = settings
        self._clock = clock
        self.owner_id = database.process
        self._kind = "serve"
        self._silent_until = 0.0
        self._served: dict[str, None] = {}
        self._turn = asyncio.Lock()

    async def register(self, kind: str) -> None:
        """Put this process on the list of those who may hold runs.

        Args:
            kind: what it is, for people who look at the list.
        """
        self._kind = kind
        now = self._clock.now()
        owner = OwnerRecord(
            id=self.owner_id,
            kind=kind,
            host=platform.node()[:200],
            pid=os.getpid(),
            started_at=now,
            beat_at=now,
        )
        async with self._database.work() as work:
            await work.owners.register(owner)

    async def leave(self) -> None:
        """Take this process off the list; runs it still holds count as those of a dead one."""
        async with self._database.work() as work:
            await work.owners.leave(self.owner_id)

    async def beat(self) -> None:
        """Say that this process lives. A failure is noted, never raised."""
        try:
            async with self._database.work() as work:
                known = await work.owners.beat(self.owner_id, self._clock.now())
            if not known:
                await self.register(self._kind)
        except Unavailable as away:
            # Others could not beat either while the database was away: nobody is declared
            # dead before each has had its time to say that it lives.
            self._silent_until = self._clock.monotonic() + self._settings.owner_dead_seconds
            log.warning("no life sign could be given", exc_info=away)

    async def claim(self) -> RunRecord | None:
        """Take the run that is next in turn, or none.

        Fair: the user with the fewest runs under way comes first, among those the one whom
        this process served longest ago, then the oldest run.
        """
        # Claims exclude each other in the database too; here for an exact order of users.
        async with self._turn, self._database.work() as work:
            run = await work.runs.claim(
                self.owner_id,
                self._clock.now(),
                self._settings.user_concurrency,
                tuple(self._served),
            )
            if run is not None:
                self._remember(run.user_id)
        if run is not None:
            fault("resume.claimed" if "resume" in run.input else "run.claimed")
        return run

    async def take(self, run_id: str) -> tuple[RunRecord | None, list[InterruptRecord]]:
        """Take one particular run that is queued or waits for a person, to end it.

        Returns:
            The run, held by this process, with the questions that were taken back; no run
            where somebody holds it or it has ended.
        """
        now = self._clock.now()
        async with self._database.work() as work:
            run = await work.runs.lock(run_id)
            if run.status not in (RunStatus.QUEUED, RunStatus.WAITING_INPUT):
                return None, []
            withdrawn = await work.interrupts.withdraw(run_id, now)
            return await self._hold(work, run), withdrawn

    async def take_up(self, run_id: str) -> RunRecord | None:
        """Take one particular run that is queued, to carry it out; none where it is not (now)."""
        async with self._database.work() as work:
            run = await work.runs.lock(run_id)
            return await self._hold(work, run) if run.status == RunStatus.QUEUED else None

    async def abandoned(self, *, scripts: bool = False, only: str | None = None) -> list[RunRecord]:
        """Take over all runs whose owners show no life sign any more.

        Args:
            scripts: leave out runs that no script began.
            only: leave out all runs but this one.
        """
        if self._clock.monotonic() < self._silent_until:
            return []
        before = self._clock.now() - timedelta(seconds=self._settings.owner_dead_seconds)
        async with self._database.work() as work:
            await work.owners.cut_off(before)
        async with self._database.work() as work:
            dead = await work.runs.of_dead_owners(before, scripts=scripts, only=only)
            taken = [await self._hold(work, run) for run in dead]
            if only is None and not scripts:
                await work.owners.forget(before)
        return taken

    async def keep(self, run: RunRecord) -> None:
        """Go on holding a run that was taken from a dead owner, which is counted.

        Raises:
            RunLost: another process holds it by now.
        """
        async with self._database.work() as work:
            await work.events.append(run, [], self._clock.now(), run.owner_id, run.attempt)
            await work.runs.count_takeover(run.id)

    async def put_back(self, run: RunRecord) -> None:
        """Queue a run that this process holds, to go on from its last checkpoint.

        Raises:
            RunLost: another process holds it by now.
        """
        async with self._database.work() as work:
            await work.events.append(run, [], self._clock.now(), run.owner_id, run.attempt)
            await work.runs.requeue(run.id)
            await self._tickets.issue(work.connection)

    async def reread(self, run: RunRecord) -> RunRecord | None:
        """Return a run as it is now, or none where this process does not hold it any more."""
        async with self._database.work() as work:
            now = await work.runs.by_id(run.id)
        same = (now.owner_id, now.attempt) == (run.owner_id, run.attempt)
        return now if same else None

    async def held(self) -> list[RunRecord]:
        """Return the runs that this process carries out, by the word of the database."""
        async with self._database.work() as work:
            return await work.runs.of_owner(self.owner_id)

    async def _hold(self, work: UnitOfWork, run: RunRecord) -> RunRecord:
        """Make this process the owner of a run whose row is locked, as a new attempt."""
        mine: dict[str, Any] = {"owner_id": self.owner_id, "attempt": run.attempt + 1}
        if run.started_at is None:
            mine["started_at"] = self._clock.now()
        await work.runs.set_status(run.id, RunStatus.RUNNING, **mine)
        return await work.runs.by_id(run.id)

    def _remember(self, user_id: str) -> None:
        """Put a user at the end of the line."""
        self._served.pop(user_id, None)
        self._served[user_id] = None
        if len(self._served) > USERS_REMEMBERED:
            del self._served[next(iter(self._served))]

    async def queued(self) -> int:
        """Return how many runs wait in the queue."""
        async with self._database.work() as work:
            return (await work.runs.counts(""))[1]
