"""The one writer for claimed runs: events numbered, stored, and only then shown.

One task writes for all runs of the process. What becomes due while a transaction is under
way goes into the next one, so that the database's work follows the number of processes,
not that of tokens. The first piece of a message is due at once, later ones within a window.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from core.clock import Clock
from core.errors import RunLost, Unavailable
from core.events import Event, StoredEvent
from core.faults import fault
from core.records import RunRecord
from runtime.announce import announce_events
from runtime.hub import Hub
from runtime.rows import Rows
from runtime.sink import PENDING_LIMIT, Buffer
from storage.database import Database
from storage.work import UnitOfWork

WINDOW = 0.04
"""Seconds for which pieces of one message are gathered."""

LONGEST_WAIT = 5.0
"""Seconds between two tries while the database is away."""

LAST_TRIES = 5.0
"""Seconds that a process which ends still waits for the database."""

log = logging.getLogger("graphwright.journal")


@dataclass(slots=True)
class Entry:
    """What one run adds to one flush."""

    writer: RunWriter
    events: list[Event]
    rows: Rows
    done: asyncio.Future[None]
    stored: list[StoredEvent] = field(default_factory=list[StoredEvent])
    fault: BaseException | None = None


class Plans(Protocol):
    """Takes note of writers that have something to store."""

    def plan(self, writer: RunWriter, *, now: bool) -> float:
        """Note that a writer has something, and return when it is due."""
        ...


class RunWriter:
    """Writes for one run as long as this process owns it."""

    def __init__(self, journal: Plans, run: RunRecord) -> None:
        self._journal = journal
        self.run = run
        self.last_seq = run.last_seq
        self.buffer = Buffer(run.agent, self._due)
        self.due_at: float | None = None
        self.broken: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Set once nothing more can be written for this run, with the reason."""
        self._rows = Rows()
        self._next: asyncio.Future[None] | None = None

    def emit(self, event: Event) -> None:
        """Put an event after everything that was said before."""
        self.buffer.event(event)

    def stage(self, rows: Rows) -> asyncio.Future[None]:
        """Have rows stored in one transaction with all events up to here.

        Returns:
            A future that is done when they are stored, and raises `RunLost` where this
            process does not own the run any more.
        """
        self._rows.add(rows)
        self._due(True)
        return self._promise()

    def take(self) -> Entry:
        """Return what is due and begin anew."""
        entry = Entry(self, self.buffer.take(), self._rows, self._promise())
        self._rows, self._next, self.due_at = Rows(), None, None
        return entry

    def give_up(self, reason: BaseException) -> None:
        """Learn that nothing more can be written for this run."""
        if not self.broken.done():
            self.broken.set_result(reason)

    def _promise(self) -> asyncio.Future[None]:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        return self._next

    def _due(self, now: bool) -> None:
        if self.buffer.pending_chars > PENDING_LIMIT:
            self.give_up(Unavailable("The database has been away for too long."))
        self.due_at = self._journal.plan(self, now=now)


class Journal:
    """Stores what the runs of this process have to say."""

    def __init__(self, database: Database, hub: Hub, clock: Clock) -> None:
        self._database = database
        self._hub = hub
        self._clock = clock
        self._dirty: dict[RunWriter, None] = {}
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self.away_since: float | None = None
        """When the database went away, by the monotonic clock; `None` while it answers."""

    def start(self) -> None:
        """Begin to write."""
        self._task = asyncio.create_task(self._write_for_ever(), name="journal")

    async def stop(self) -> None:
        """Store what is left and end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    def open(self, run: RunRecord) -> RunWriter:
        """Return the writer of a run that this process has claimed."""
        return RunWriter(self, run)

    def plan(self, writer: RunWriter, *, now: bool) -> float:
        """Note that a writer has something, and return when it is due."""
        moment = self._clock.monotonic()
        due = moment if now else moment + WINDOW
        if writer.due_at is not None and writer.due_at <= due:
            return writer.due_at
        self._dirty[writer] = None
        self._wake.set()
        return due

    # Helpers ----------------------------------------------------------------------------

    async def _write_for_ever(self) -> None:
        while not self._stopping or self._dirty:
            await self._until_due()
            now = self._clock.monotonic()
            due = [
                writer
                for writer in self._dirty
                if self._stopping or writer.due_at is None or writer.due_at <= now
            ]
            for writer in due:
                del self._dirty[writer]
            if due:
                await self._flush([writer.take() for writer in due])

    async def _until_due(self) -> None:
        moments = [writer.due_at or 0.0 for writer in self._dirty]
        patience = max(min(moments) - self._clock.monotonic(), 0) if moments else None
        if self._stopping or patience == 0:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._wake.wait()
        self._wake.clear()

    async def _flush(self, entries: Sequence[Entry]) -> None:
        # Everywhere in the product run rows are locked in the order of their ids.
        batch = sorted(entries, key=lambda entry: entry.writer.run.id)
        wait = WINDOW
        doubtful = False
        while True:
            try:
                await self._store(batch, doubtful=doubtful)
                break
            except Unavailable as away:
                doubtful = True
                self._note_away(away)
                if self._given_up():
                    for entry in batch:
                        entry.fault = away
                    break
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)
            except Exception as broken:  # boundary: one run's bad row must not stop the others
                await self._part(batch, broken)
                return
        if not isinstance(batch[0].fault, Unavailable):
            self._note_back()
        for entry in batch:
            self._settle(entry)

    def _given_up(self) -> bool:
        """Tell whether this process ends and has waited long enough for the database."""
        away = self.away_since
        waited = self._clock.monotonic() - away if away is not None else 0.0
        return self._stopping and waited > LAST_TRIES

    async def _part(self, batch: Sequence[Entry], broken: Exception) -> None:
        """Write one by one what could not be written together."""
        if len(batch) > 1:
            for entry in batch:
                await self._flush([entry])
            return
        log.error("a flush failed", exc_info=broken, extra={"kv": {"run": batch[0].writer.run.id}})
        batch[0].fault = broken
        self._settle(batch[0])

    async def _store(self, batch: Sequence[Entry], *, doubtful: bool) -> None:
        at = self._clock.now()
        async with self._database.work() as work:
            for entry in batch:
                entry.stored, entry.fault = [], None
                if doubtful and await self._stored_before(work, entry):
                    continue
                run = entry.writer.run
                try:
                    entry.stored = await work.events.append(
                        run, entry.events, at, run.owner_id, run.attempt
                    )
                    await entry.rows.write(work, run)
                except RunLost as lost:
                    entry.fault = lost
            reached = [(e.writer.run.id, e.stored[-1].seq) for e in batch if e.stored]
            await announce_events(work.connection, reached)
        fault("event.saved.before_notify")

    async def _stored_before(self, work: UnitOfWork, entry: Entry) -> bool:
        """Find out whether the last try was committed although no reply came.

        Nobody but its owner writes for a running run, so that a number above the last
        known one can only come from this very entry.
        """
        writer = entry.writer
        stored, _, last_seq = await work.events.after(
            writer.run.id, writer.last_seq, len(entry.events) + 1
        )
        if last_seq <= writer.last_seq:
            return False
        entry.stored = stored
        return True

    def _settle(self, entry: Entry) -> None:
        if entry.stored:
            entry.writer.last_seq = entry.stored[-1].seq
            self._hub.publish(entry.writer.run.id, entry.stored)
        if entry.fault is not None:
            entry.writer.give_up(entry.fault)
        if entry.done.done():
            return
        if entry.fault is None:
            entry.done.set_result(None)
        else:
            entry.done.set_exception(entry.fault)
            # Whoever stages rows without waiting for them learns it from `broken`.
            entry.done.exception()

    def _note_away(self, away: Unavailable) -> None:
        if self.away_since is None:
            self.away_since = self._clock.monotonic()
            log.warning("the database is away; events wait", exc_info=away)

    def _note_back(self) -> None:
        if self.away_since is not None:
            log.info("the database is back")
            self.away_since = None
