"""What drives read of what is kept of runs; in the product it is kept in the database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from core.clock import Clock
from core.ports import CallJournal, Grants
from core.principal import Principal
from core.records import RunRecord
from runtime.calls import RunCalls
from runtime.recall import Recalled, recall
from runtime.rows import owner_of
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a run before it is driven (again)."""

    project_id: str
    """Whose files it works with."""
    preferences: dict[str, Any] | None
    """What its user wants every agent to know."""
    recalled: Recalled


class Keeping(Protocol):
    """Where runs, their threads and standing permissions are kept."""

    @property
    def grants(self) -> Grants:
        """Return the standing permissions."""
        ...

    async def before(self, run: RunRecord) -> Before:
        """Return what is known of a run.

        Raises:
            NotFound: its session is gone.
            Unavailable: the database is away.
        """
        ...

    def calls(self, run: RunRecord, clock: Clock) -> CallJournal:
        """Return the journal of a run's calls."""
        ...

    def checkpointer(self, claim: RunRecord | None = None) -> Any:
        """Return a LangGraph checkpointer for one drive, which writes under the run's claim."""
        ...


class GrantBook:
    """Reads standing permissions; implements `core.ports.Grants`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def granted(self, principal: Principal, session_id: str) -> frozenset[str]:
        """Return the names of tools that were allowed for this session or workspace."""
        async with self._database.work() as work:
            return await work.grants.names(principal, session_id)


class DatabaseKeeping:
    """Keeps in the database; implements `Keeping`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.grants: Grants = GrantBook(database)

    async def before(self, run: RunRecord) -> Before:
        """Read session, preferences, and what the run has said; see `Keeping`."""
        principal = owner_of(run)
        async with self._database.work() as work:
            session = await work.sessions.get(principal, run.session_id)
            preferences = await work.preferences.get(principal)
        return Before(session.project_id, preferences, await recall(self._database, run))

    def calls(self, run: RunRecord, clock: Clock) -> CallJournal:
        """Return the journal of a run's calls."""
        return RunCalls(self._database, run, clock)

    def checkpointer(self, claim: RunRecord | None = None) -> Any:
        """Return a checkpointer of its own."""
        return self._database.checkpointer(claim)
