"""The life of runs as callers see it: submit, answer, follow, cancel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from core.errors import NotCancellable, NotFound
from core.events import StoredEvent
from core.ids import is_uuid
from core.principal import Principal
from core.records import RunRecord
from core.types import ACTIVE
from runtime.admission import Admission
from runtime.canceller import Canceller
from runtime.commands import ChatCommand, ResumeCommand, Submitted
from runtime.follow import Follower
from runtime.hub import Hub
from runtime.interrupts import Interrupts
from storage.database import Database


class Runs:
    """What routes, schedules and scripts may do with runs."""

    def __init__(
        self,
        database: Database,
        hub: Hub,
        admission: Admission,
        interrupts: Interrupts,
        canceller: Canceller,
    ) -> None:
        self._database = database
        self._hub = hub
        self._admission = admission
        self._interrupts = interrupts
        self._canceller = canceller
        self._follower = Follower(database, hub)

    async def submit(self, principal: Principal, command: ChatCommand) -> Submitted:
        """Queue a run for a message. What is refused leaves nothing behind.

        Raises:
            NotFound: no such session or agent of this caller.
            SessionBusy: a run is active in the session.
            DuplicateRequest: the `request_id` was used before.
            QueueFull: too many runs wait.
            Invalid: a field has a value that is not allowed.
            PathRefused, FileRefused, TooLarge: a file is not accepted.
        """
        submitted, events = await self._admission.admit(principal, command)
        self._hub.publish(submitted.run_id, events)
        return submitted

    async def resume(self, principal: Principal, command: ResumeCommand) -> Submitted:
        """Answer what a run waits with; see `runtime.interrupts` for what is raised."""
        submitted, events = await self._interrupts.answer(principal, command)
        self._hub.publish(submitted.run_id, events)
        return submitted

    async def cancel(self, principal: Principal, run_id: str) -> None:
        """Stop a run; what was said and done is kept.

        A run that nobody carries out has ended when this returns, another one a moment later.

        Raises:
            NotFound: no such run of this caller.
            NotCancellable: it has ended already.
        """
        run = await self.get(principal, run_id)
        if run.status not in ACTIVE:
            raise NotCancellable(details={"status": run.status})
        await self._canceller.cancel(run.id, principal)

    async def get(self, principal: Principal, run_id: str) -> RunRecord:
        """Return a run.

        Raises:
            NotFound: no such run of this caller.
        """
        if not is_uuid(run_id):
            raise NotFound
        async with self._database.work() as work:
            return await work.runs.get(principal, run_id.lower())

    def follow(
        self, principal: Principal, run_id: str, after: int = 0
    ) -> AsyncIterator[StoredEvent]:
        """Yield a run's events above `after` until it rests; nothing lost, nothing doubled.

        Raises:
            NotFound: no such run of this caller; raised at the first step.
        """
        return self._follower.follow(principal, run_id, after)

    async def active_run(self, principal: Principal, session_id: str) -> RunRecord | None:
        """Return the run that holds a session, or none.

        Raises:
            NotFound: no such session of this caller.
        """
        if not is_uuid(session_id):
            raise NotFound
        async with self._database.work() as work:
            await work.sessions.get(principal, session_id)
            return await work.runs.active(session_id)

    async def pending_interrupt(
        self, principal: Principal, session_id: str
    ) -> dict[str, Any] | None:
        """Return the card that a session waits with, or none.

        Raises:
            NotFound: no such session of this caller.
        """
        return await self._interrupts.pending(principal, session_id)
