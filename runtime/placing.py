"""Where a run that was let in goes: into the queue for any worker, or into this process's hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from core.errors import QueueFull
from core.principal import Principal
from core.records import RunRecord
from core.settings import Settings
from core.types import RunStatus
from runtime.claims import Claims
from runtime.queue import Tickets
from storage.work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Spot:
    """How the row of a run says where it is."""

    status: RunStatus
    owner_id: str | None
    attempt: int


class Place(Protocol):
    """What admission and answers know of it."""

    async def check(self, work: UnitOfWork, principal: Principal) -> None:
        """Refuse a new run for which there is no room.

        Raises:
            QueueFull: too many runs wait.
        """
        ...

    def spot(self, run: RunRecord | None) -> Spot:
        """Return where a new run goes, or one that goes on."""
        ...

    async def announce(self, work: UnitOfWork) -> None:
        """Let somebody take the run, once this transaction is committed."""
        ...


class InQueue:
    """Any worker of any server may take the run."""

    def __init__(self, tickets: Tickets, settings: Settings) -> None:
        self._tickets = tickets
        self._settings = settings

    async def check(self, work: UnitOfWork, principal: Principal) -> None:
        """Refuse a new run where too many wait.

        Raises:
            QueueFull: they do.
        """
        settings = self._settings
        own, all_of_them = await work.runs.counts(principal.user_id)
        if own >= settings.queue_per_user or all_of_them >= settings.queue_total:
            raise QueueFull(details={"yours": own, "all": all_of_them}, retry_after=10)

    def spot(self, run: RunRecord | None) -> Spot:
        """Return the end of the queue."""
        return Spot(RunStatus.QUEUED, None, 0 if run is None else run.attempt)

    async def announce(self, work: UnitOfWork) -> None:
        """Issue a ticket."""
        await self._tickets.issue(work.connection)


class InHand:
    """This process carries the run out; nobody else may, as long as it shows life signs."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    async def check(self, work: UnitOfWork, principal: Principal) -> None:
        """Refuse nothing: the run does not wait in the queue."""

    def spot(self, run: RunRecord | None) -> Spot:
        """Return our own hands, under a new claim."""
        attempt = 1 if run is None else run.attempt + 1
        return Spot(RunStatus.RUNNING, self._claims.owner_id, attempt)

    async def announce(self, work: UnitOfWork) -> None:
        """Tell nobody."""
