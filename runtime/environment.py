"""The runtime of one process, put together and taken apart in the right order."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self

import orjson

from core.clock import Clock
from core.health import Part
from core.log import get_logger
from core.ports import FileStores, Models
from core.registry import Assembly
from core.settings import Settings
from core.types import SCRIPT
from runtime.admission import Admission
from runtime.agents import Agents
from runtime.announce import CONTROL, EVENTS
from runtime.canceller import Canceller
from runtime.claims import Claims
from runtime.engine import Engine
from runtime.health import worker_part, workers_part
from runtime.hub import Hub
from runtime.interrupts import Interrupts
from runtime.journal import Journal
from runtime.keeping import DatabaseKeeping
from runtime.placing import InHand, InQueue
from runtime.preferences import Preferences
from runtime.queue import Tickets
from runtime.recovery import Recovery
from runtime.runs import Runs
from runtime.services import Services
from runtime.sessions import Sessions
from runtime.skills import Skills
from runtime.strays import Strays
from runtime.titles import Titles
from runtime.worker import Worker
from runtime.workshop import Parts, Workshop
from storage.database import Database
from storage.listen import Listener, listen

LOOK_SECONDS = 2.0
"""How often runs are looked at that this process holds."""

log = get_logger(__name__)


Kind = Literal["serve", "api", "worker", "script"]
"""What a process does with runs."""


class Runtime:
    """Everything that carries out runs; `async with` begins and ends it."""

    def __init__(  # noqa: PLR0913 - a composition root takes what it composes
        self,
        settings: Settings,
        database: Database,
        models: Models,
        assembly: Assembly,
        stores: FileStores,
        clock: Clock,
        *,
        kind: Kind = "serve",
    ) -> None:
        """Put the parts together; nothing runs yet.

        The database is open and migrated. `serve` and `worker` take runs from the queue, `api`
        only gives and follows them; with `script` they never pass through the queue, but stay
        with this process, as a script carries out its own.
        """
        self._settings, self._database, self._clock = settings, database, clock
        self._works, self._kind, in_hand = kind in ("serve", "worker"), kind, kind == SCRIPT
        parts = Parts.of(settings, models, assembly, stores, clock)
        self.services, self.hub = Services(assembly.services), Hub()
        self.tickets = Tickets(database.url, clock)
        self.journal = Journal(database, self.hub, clock)
        self.claims = Claims(database, self.tickets, settings, clock)
        self.workshop = Workshop(DatabaseKeeping(database), parts)
        self.engine = Engine(self.workshop, self.journal, clock)
        self.worker = Worker(self.claims, self.engine, self.tickets, settings, clock)
        place = InHand(self.claims) if in_hand else InQueue(self.tickets, settings)
        self.runs = Runs(
            database,
            self.hub,
            Admission(database, place, parts),
            Interrupts(database, place, assembly, clock),
            Canceller(database, self.engine, self.claims),
        )
        self.sessions = Sessions(database, self.workshop, stores, clock)
        self.preferences = Preferences(database)
        self.agents = Agents(assembly, self.services)
        self.skills = Skills(parts.skills)
        self._titles = Titles(database, models, settings, assembly, clock)
        self._listener: Listener | None = None
        go_on = self.claims.keep if in_hand else self.claims.put_back
        self.recovery = Recovery(self.engine, self.claims, settings, go_on)
        self.strays = Strays(self.claims, self.engine, self.recovery.decide)
        self._regular: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start the services, then begin to take and, where asked, to carry out runs.

        Raises:
            ConfigError: a service cannot start; those that did are closed again.
        """
        await self.services.__aenter__()
        try:
            self.agents.equip()
            await self._begin()
        except BaseException:
            await self.services.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop in order: nothing new, runs drained or handed over, everything stored."""
        try:
            await self.drain()
            await self._titles.stop()
            await self._close()
        finally:
            await self.services.__aexit__(kind, error, traceback)

    async def drain(self) -> None:
        """Take no more runs, and give those under way their time to end; then hand them over."""
        if self._works:
            await self.worker.stop()

    async def health(self) -> Part:
        """Say how the part does that carries out runs."""
        listening = self._listener is not None and self._listener.connected
        if not self._works:
            since = self._clock.now() - timedelta(seconds=self._settings.owner_dead_seconds)
            return await workers_part(self._database, since)
        return await worker_part(self._database, self.worker, self.journal, listening=listening)

    # Helpers ----------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self.tickets.open()
        try:
            await self.claims.register(self._kind)
            self.journal.start()
            self._listener = await listen(
                self._database.url,
                (EVENTS, CONTROL),
                self._on_notify,
                self._on_reconnect,
                clock=self._clock,
            )
            self._regular = [
                asyncio.create_task(self._beat_for_ever(), name="heartbeat"),
                asyncio.create_task(self._look_for_ever(), name="strays"),
            ]
            if self._works:
                self.engine.after_run = self._titles.after_run
                await self.worker.start()
        except BaseException:
            await self._close()
            raise

    async def _close(self) -> None:
        for task in self._regular:
            task.cancel()
        await asyncio.gather(*self._regular, return_exceptions=True)
        if self._listener is not None:
            await self._listener.aclose()
        await self.journal.stop()
        try:
            await self.claims.leave()
        except Exception:  # boundary: a database that is away must not keep a process from ending
            log.warning("this process could not sign off", exc_info=True)
        await self.tickets.close()

    def _on_notify(self, channel: str, payload: str) -> None:
        try:
            said = orjson.loads(payload)
            if channel == EVENTS:
                for run_id, last_seq in said:
                    self.hub.heard(run_id, last_seq)
            elif "cancel" in said:
                self.engine.cancel(said["cancel"])
        except (ValueError, TypeError, KeyError):
            # Anybody who may connect may notify; a message that is not ours is no reason to stop.
            log.warning("a notification could not be read", extra={"kv": {"channel": channel}})

    def _on_reconnect(self) -> None:
        self.hub.look_everywhere()

    async def _look_for_ever(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.strays.look()
            except Exception:  # boundary: the next look tries again
                log.warning("strays could not be looked for", exc_info=True)

    async def _beat_for_ever(self) -> None:
        while True:
            await self._clock.sleep(self._settings.heartbeat_seconds)
            try:
                await self.claims.beat()
            except Exception:  # boundary: life signs must go on whatever happens to one of them
                log.warning("a heartbeat failed", exc_info=True)
