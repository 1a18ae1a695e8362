"""Works off the queue in this process, and looks after runs whose process died."""

from __future__ import annotations

import asyncio

from core.clock import Clock
from core.errors import Unavailable
from core.log import get_logger
from core.records import RunRecord
from core.settings import Settings
from runtime.claims import Claims
from runtime.engine import Engine, Stop, patiently
from runtime.queue import Tickets
from runtime.recovery import Recovery

SWEEP_SECONDS = 2.0
"""How often lost tickets and abandoned runs are looked for."""

LAST_SECONDS = 10.0
"""How long a run that was stopped may take to store what it has said."""

log = get_logger(__name__)


class Worker:
    """Claims runs as tickets come in and drives them, at most so many at a time."""

    def __init__(
        self, claims: Claims, engine: Engine, tickets: Tickets, settings: Settings, clock: Clock
    ) -> None:
        self._claims = claims
        self._engine = engine
        self._tickets = tickets
        self._settings = settings
        self._clock = clock
        self._recovery = Recovery(engine, claims, settings)
        self._seats = asyncio.Semaphore(settings.worker_concurrency)
        self._shifts: set[asyncio.Task[None]] = set()
        self._watch: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def working(self) -> bool:
        """Whether new runs would be taken at this moment."""
        return self._tickets.working and not self._stopping

    @property
    def running(self) -> int:
        """How many runs are under way here."""
        return len(self._engine.active)

    @property
    def seats(self) -> int:
        """How many runs may be under way here at once."""
        return self._settings.worker_concurrency

    async def start(self) -> None:
        """Look once for what was left behind, then begin to work."""
        await self.sweep()
        self._tickets.start(self._on_ticket, self._settings.worker_concurrency)
        self._watch = [asyncio.create_task(self._sweep_for_ever(), name="sweep")]

    async def stop(self) -> None:
        """Take nothing new, let runs end for a while, then hand over the others.

        They stop between two steps where they come to one in time: what they are at is done.
        """
        self._stopping = True
        await self._tickets.stop()
        for task in self._watch:
            task.cancel()
        await asyncio.gather(*self._watch, return_exceptions=True)
        if self._shifts:
            await asyncio.wait(self._shifts, timeout=self._settings.drain_seconds)
        for active in list(self._engine.active.values()):
            active.leave()
        if self._shifts:
            await asyncio.wait(self._shifts, timeout=self._settings.handover_seconds)
        for active in list(self._engine.active.values()):
            active.request(Stop.HAND_OVER)
        if self._shifts:
            await asyncio.wait(self._shifts, timeout=LAST_SECONDS)

    async def sweep(self) -> None:
        """Deal with abandoned runs and lost tickets."""
        try:
            for run in await self._claims.abandoned():
                await self._recovery.decide(run)
            await self._tickets.mend(await self._claims.queued())
        except Unavailable as away:
            log.warning("the sweep could not be made", exc_info=away)

    # Helpers ----------------------------------------------------------------------------

    async def _on_ticket(self) -> None:
        shift = asyncio.create_task(self._shift(), name="shift")
        self._shifts.add(shift)
        shift.add_done_callback(self._shifts.discard)
        # The queue's worker may be stopped or restarted; the run goes on all the same.
        await asyncio.shield(shift)

    async def _shift(self) -> None:
        """Drive one run after the other until none is left to claim.

        A run whose user had too many under way was passed over by its own ticket; it is
        found here, when one of the others ends.
        """
        async with self._seats:
            while not self._stopping:
                try:
                    run = await self._claims.claim()
                except Unavailable as away:
                    log.warning("no run could be claimed", exc_info=away)
                    return
                if run is None:
                    return
                await self._drive(run)

    async def _drive(self, run: RunRecord) -> None:
        if await self._engine.drive(run) == "handed_over":
            now = await patiently(self._clock, lambda: self._claims.reread(run))
            if now is not None:
                await self._recovery.decide(now)

    async def _sweep_for_ever(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except Exception:  # boundary: the next sweep tries again
                log.exception("a sweep failed")
