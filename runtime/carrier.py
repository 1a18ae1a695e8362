"""Brings the runs of a script to rest, whoever has to carry them out in the end.

A script holds its own runs from the moment they are let in, so no server takes them. Where that
cannot be kept up, because the database was away or the script's loop stood still for too long,
another process may have taken a run over by its owner's missing life signs; then it is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from core.clock import Clock
from core.log import get_logger
from core.records import RunRecord
from core.types import RunStatus
from runtime.engine import Stop, patiently
from runtime.environment import Runtime
from runtime.seats import Seats
from storage.database import Database

LOOK = 2.0
"""Seconds after which a run that somebody else carries out is looked at, without news of it."""

STOP_SECONDS = 10.0
"""How long the end of a cancelled run is waited for."""

GOING = (RunStatus.QUEUED, RunStatus.RUNNING)

log = get_logger(__name__)


class Carrier:
    """The runs that this script sees through."""

    def __init__(self, database: Database, runtime: Runtime, clock: Clock, seats: Seats) -> None:
        self._database, self._clock, self._seats = database, clock, seats
        self._hub, self._engine = runtime.hub, runtime.engine
        self._claims, self._recovery = runtime.claims, runtime.recovery
        self._tasks: dict[str, asyncio.Task[RunRecord]] = {}
        self._held: set[str] = set()
        self._unwanted: set[str] = set()
        self._leaving = False

    @property
    def under_way(self) -> Sequence[str]:
        """The runs that are not at rest yet."""
        return list(self._tasks)

    def expect(self, run_id: str) -> None:
        """Answer for a run of this script that nobody drives yet."""
        self._engine.expected.add(run_id)

    def see_through(self, run_id: str, held: RunRecord | None = None) -> asyncio.Task[RunRecord]:
        """Begin to bring a run to rest; a second call gives the task of the first.

        Args:
            run_id: the run.
            held: the run where this process holds it and nobody drives it yet.

        Returns:
            Its result is the run at rest. Awaiting it does not own it: shield it.
        """
        task = self._tasks.get(run_id)
        if task is None:
            self.expect(run_id)
            task = asyncio.create_task(self._through(run_id, held), name=f"see {run_id} through")
            self._tasks[run_id] = task
            task.add_done_callback(lambda _: self._forget(run_id))
        return task

    def holds(self, run_id: str) -> bool:
        """Tell whether this process carries the run out now, rather than waiting for another."""
        return run_id in self._held

    async def stop(self, run_id: str) -> bool:
        """Cancel a run that this process carries out; what was said and done is kept.

        Returns:
            Whether it came to rest in time. Where it did not, the database is away, or another
            process has it.
        """
        task = self._tasks.get(run_id)
        if task is None:
            return True
        self._unwanted.add(run_id)
        self._engine.cancel(run_id)
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        return task.done()

    async def recover(self) -> None:
        """Take over the runs of scripts that died, and see them through in the background.

        Raises:
            Unavailable: the database is away.
        """
        taken = await self._claims.abandoned(scripts=True)
        if taken:
            log.warning("runs of a script that died go on here", extra={"kv": {"runs": len(taken)}})
        for run in taken:
            if run.id not in self._tasks:
                self._take_over(run)

    async def leave(self, seconds: float) -> None:
        """Let what others began and this process took over end for a while; then leave it."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        self._leaving = True
        for active in list(self._engine.active.values()):
            active.request(Stop.HAND_OVER)
        waiting = list(self._tasks.values())
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # Helpers ----------------------------------------------------------------------------

    def _take_over(self, run: RunRecord) -> None:
        self.expect(run.id)
        task = asyncio.create_task(self._mended(run), name=f"take {run.id} over")
        self._tasks[run.id] = task
        task.add_done_callback(lambda _: self._forget(run.id))

    def _forget(self, run_id: str) -> None:
        task = self._tasks.pop(run_id, None)
        self._held.discard(run_id)
        self._unwanted.discard(run_id)
        self._engine.expected.discard(run_id)
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            log.error("a run could not be seen through", exc_info=error)

    async def _mended(self, run: RunRecord) -> RunRecord:
        async with self._seats.one():
            return await self._through(run.id, await self._mend(run))

    async def _through(self, run_id: str, held: RunRecord | None) -> RunRecord:
        while True:
            if held is not None:
                if run_id in self._unwanted:
                    self._engine.cancel(run_id)
                held = await self._drive(held)
            run = await patiently(self._clock, lambda: self._read(run_id))
            if run.status not in GOING or self._leaving:
                return run
            if held is None and run_id in self._unwanted:
                return run
            if held is None:
                held = await patiently(self._clock, partial(self._get_hold, run))
            if held is None:
                await self._news(run_id)

    async def _drive(self, run: RunRecord) -> RunRecord | None:
        """Carry out a run; returns it where it is still ours and has to go on."""
        self._held.add(run.id)
        try:
            outcome = await self._engine.drive(run)
        finally:
            self._held.discard(run.id)
        return await self._mend(run) if outcome == "handed_over" and not self._leaving else None

    async def _mend(self, run: RunRecord) -> RunRecord | None:
        """Decide about a run that broke off; returns it where it may go on here."""
        now = await patiently(self._clock, lambda: self._claims.reread(run))
        if now is None:
            return None
        await self._recovery.decide(now)
        now = await patiently(self._clock, lambda: self._claims.reread(run))
        return now if now is not None and now.status == RunStatus.RUNNING else None

    async def _get_hold(self, run: RunRecord) -> RunRecord | None:
        """Take a run that nobody carries out (any more), or nothing."""
        if run.status == RunStatus.QUEUED:
            return await self._claims.take_up(run.id)
        if run.owner_id == self._claims.owner_id:
            # Nobody else here drives it: the reply to the claim was lost with its connection.
            return await self._mend(run)
        taken = await self._claims.abandoned(only=run.id)
        return await self._mend(taken[0]) if taken else None

    async def _read(self, run_id: str) -> RunRecord:
        async with self._database.work() as work:
            return await work.runs.by_id(run_id)

    async def _news(self, run_id: str) -> None:
        """Wait until something happened to a run, but not for long."""
        subscription = self._hub.subscribe(run_id)
        try:
            with contextlib.suppress(TimeoutError):
                await subscription.next(LOOK)
        finally:
            self._hub.unsubscribe(run_id, subscription)
