"""Carries out claimed runs: one drive each, and whatever may happen to it, to a named end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg

from core.clock import Clock
from core.errors import GraphwrightError, InternalError, RunLost, Unavailable
from core.log import bind, get_logger
from core.records import RunRecord
from runtime import ending
from runtime.drive import Drive
from runtime.gates import told_of_failure
from runtime.journal import RunWriter
from runtime.rows import Rows
from runtime.workshop import Workshop

if TYPE_CHECKING:
    from langgraph.types import Interrupt

GRACE = 1.5
"""Seconds a stopped drive has to end before it is left alone."""

WORDS_KEPT = 1000
"""Cancelled runs that are not under way here and whose names are kept for a while."""

AWAY = (Unavailable, psycopg.OperationalError, psycopg.InterfaceError)
"""What says that the database does not answer, rather than that something is wrong."""

T = TypeVar("T")

log = get_logger(__name__)


class Stop(Enum):
    """Why a drive is stopped from outside."""

    CANCEL = "cancel"
    """Its user wants it to end."""
    HAND_OVER = "hand_over"
    """This process ends; another one goes on."""


class Writers(Protocol):
    """Opens the writers of claimed runs."""

    def open(self, run: RunRecord) -> RunWriter:
        """Return the writer of a run that this process has claimed."""
        ...


@dataclass(slots=True)
class Active:
    """A run that this process carries out right now."""

    run: RunRecord
    writer: RunWriter
    stop: asyncio.Future[Stop] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    drive: Drive | None = None
    """There once the run is prepared."""
    leaving: bool = False

    def leave(self) -> None:
        """Hand the run over at its next step."""
        self.leaving = True
        if self.drive is not None:
            self.drive.leave()

    def request(self, stop: Stop) -> None:
        """Ask the drive to stop; the first reason counts."""
        if not self.stop.done():
            self.stop.set_result(stop)


class Engine:
    """Drives runs that this process has claimed, any number at a time."""

    def __init__(self, workshop: Workshop, journal: Writers, clock: Clock) -> None:
        self._workshop = workshop
        self._journal = journal
        self._clock = clock
        self._active: dict[str, Active] = {}
        self._attended: set[str] = set()
        self._unwanted: dict[str, None] = {}
        self.expected: set[str] = set()
        """Runs that somebody here answers for although they are not under way this moment."""
        self.after_run: Callable[[RunRecord], Awaitable[None]] | None = None
        """Called with each run that ended well, once its seat is free."""

    @property
    def active(self) -> dict[str, Active]:
        """The runs under way, by id."""
        return self._active

    def deals_with(self, run_id: str) -> bool:
        """Tell whether this process is at work on a run in any way."""
        return run_id in self._active or run_id in self._attended or run_id in self.expected

    def cancel(self, run_id: str) -> bool:
        """Stop a run at once, if it is carried out here.

        The word may come in the moment between a run's claim and its drive, so it is kept.
        """
        active = self._active.get(run_id)
        if active is not None:
            active.request(Stop.CANCEL)
        else:
            self._unwanted[run_id] = None
            if len(self._unwanted) > WORDS_KEPT:
                del self._unwanted[next(iter(self._unwanted))]
        return active is not None

    async def drive(self, run: RunRecord) -> str:
        """Carry out a claimed run up to its end or its next question; never raises.

        Returns:
            How it came to rest: `success`, `waiting`, `failed`, `cancelled`, `handed_over`
            or `lost`, where another process owns it by now.
        """
        active = Active(run, self._journal.open(run))
        self._active[run.id] = active
        if run.id in self._unwanted:
            del self._unwanted[run.id]
            active.request(Stop.CANCEL)
        began = self._clock.monotonic()
        with bind(trace_id=run.trace_id, run_id=run.id, session_id=run.session_id):
            try:
                outcome = await self._carry_out(active)
            except RunLost as lost:
                log.warning("another process owns this run by now: %s", lost.message)
                outcome = "lost"
            except Exception:  # boundary: a fault in ending one run must not stop the others
                log.exception("a run could not be brought to its end")
                outcome = "handed_over"
            finally:
                # The run may have come back to this very process under a new claim.
                if self._active.get(run.id) is active:
                    del self._active[run.id]
            took = round((self._clock.monotonic() - began) * 1000)
            values = {"outcome": outcome, "duration_ms": took, "attempt": run.attempt}
            log.info("execution.completed", extra={"kv": values})
        if outcome == "success" and self.after_run is not None:
            await self.after_run(run)
        return outcome

    async def attend(self, run: RunRecord, act: Callable[[Drive], Awaitable[None]]) -> None:
        """Do something about a run that this process holds and nobody drives.

        Where that is not possible, even after a while, the run ends with the error instead:
        a run that cannot be read or put in order must not stay active for ever.

        Raises:
            RunLost: another process holds it by now.
        """
        writer = self._journal.open(run)
        self._attended.add(run.id)
        try:
            drive = await patiently(self._clock, lambda: self._workshop.prepare(run, writer))
            await patiently(self._clock, lambda: act(drive))
        except RunLost:
            raise
        except Exception as broken:  # boundary: whatever is wrong with a run becomes its end
            await ending.refuse(writer, _named(broken), self._clock.now())
        finally:
            self._attended.discard(run.id)

    # Helpers ----------------------------------------------------------------------------

    async def _carry_out(self, active: Active) -> str:
        try:
            drive = await patiently(
                self._clock, lambda: self._workshop.prepare(active.run, active.writer)
            )
        except Exception as broken:  # boundary: whatever is wrong with a run becomes its end
            await ending.refuse(active.writer, _named(broken), self._clock.now())
            return "failed"
        active.drive = drive
        if active.leaving:
            drive.leave()
        if active.run.cancel_requested:
            active.request(Stop.CANCEL)
        elif not drive.recalled.began:
            drive.writer.emit(drive.agent_start())
        outcome = await self._watch(drive, active)
        return await self._end(drive, outcome)

    async def _watch(self, drive: Drive, active: Active) -> Interrupt | BaseException | Stop | None:
        """Let the drive go on until it ends, is stopped, or cannot be written down any more."""
        from langgraph.errors import GraphDrained

        work = asyncio.create_task(drive.carry_on(), name=f"run {drive.run.id}")
        await asyncio.wait(
            {work, active.stop, drive.writer.broken}, return_when=asyncio.FIRST_COMPLETED
        )
        if not work.done():
            drive.sink.close()
            work.cancel()
            await asyncio.wait({work}, timeout=GRACE)
            if not work.done():
                log.warning("something of the stopped run hangs and is left alone")
                work.add_done_callback(_forget)
            else:
                _forget(work)
            return active.stop.result() if active.stop.done() else drive.writer.broken.result()
        if work.cancelled():
            return Stop.HAND_OVER
        error = work.exception()
        return Stop.HAND_OVER if isinstance(error, GraphDrained) else error or work.result()

    async def _end(self, drive: Drive, outcome: Interrupt | BaseException | Stop | None) -> str:
        from langgraph.types import Interrupt

        match outcome:
            case None:
                await ending.succeed(drive)
                return "success"
            case Interrupt():
                await ending.wait(drive, outcome)
                return "waiting"
            case Stop.CANCEL:
                await patiently(self._clock, lambda: ending.cancel(drive))
                return "cancelled"
            case Stop.HAND_OVER:
                return await self._leave(drive)
            case RunLost():
                raise outcome
            case _:
                return await self._fail(drive, outcome)

    async def _fail(self, drive: Drive, error: BaseException) -> str:
        if isinstance(error, AWAY):
            # The work is safe in the last checkpoint; it goes on from there.
            log.warning("the database went away during the run", exc_info=error)
            return await self._leave(drive)
        named = _named(error)
        await patiently(self._clock, lambda: ending.fail(drive, named))
        await told_of_failure(drive.ctx.hooks, drive.run_end(named.code))
        return "failed"

    async def _leave(self, drive: Drive) -> str:
        """Leave a run as it is, with all that was said of it stored."""
        drive.sink.close()
        await drive.writer.stage(Rows())
        return "handed_over"


async def patiently(clock: Clock, attempt: Callable[[], Awaitable[T]]) -> T:
    """Do something that needs the database, waiting for it as long as it is away."""
    wait = 0.1
    while True:
        try:
            return await attempt()
        except AWAY as away:
            log.warning("the database is away; trying again", exc_info=away)
            await clock.sleep(wait)
            wait = min(wait * 2, 5.0)


def _named(error: BaseException) -> GraphwrightError:
    """Return the error that the user is told; what is unexpected is only logged."""
    if isinstance(error, GraphwrightError):
        return error
    log.error("unexpected fault in a run", exc_info=error)
    return InternalError()


def _forget(task: asyncio.Task[Any]) -> None:
    """Take note of a stopped task's end, whatever it was."""
    if not task.cancelled():
        task.exception()
