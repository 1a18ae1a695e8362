"""Stops runs wherever they are: here, in another process, in the queue, or before a person."""

from __future__ import annotations

from core.events import InterruptResolved
from core.log import bind
from core.principal import Principal
from core.records import InterruptRecord, RunRecord
from runtime import ending
from runtime.announce import announce_cancel
from runtime.claims import Claims
from runtime.drive import Drive
from runtime.engine import Engine
from storage.database import Database


class Canceller:
    """Ends runs on their users' word."""

    def __init__(self, database: Database, engine: Engine, claims: Claims) -> None:
        self._database = database
        self._engine = engine
        self._claims = claims

    async def cancel(self, run_id: str, principal: Principal) -> None:
        """Stop a run that was active a moment ago."""
        async with self._database.work() as work:
            await work.runs.request_cancel(run_id)
            await announce_cancel(work.connection, run_id)
        if self._engine.cancel(run_id):
            return
        run, withdrawn = await self._claims.take(run_id)
        if run is not None:
            await self._end(run, withdrawn, principal.user_name)

    async def _end(self, run: RunRecord, withdrawn: list[InterruptRecord], by: str) -> None:
        """End a run that nobody carries out, in the name of this process."""

        async def end(drive: Drive) -> None:
            for record in withdrawn:
                drive.writer.emit(
                    InterruptResolved(interrupt_token=record.token, decisions=[], by=by)
                )
            withdrawn.clear()
            await ending.cancel(drive)

        with bind(trace_id=run.trace_id, run_id=run.id, session_id=run.session_id):
            await self._engine.attend(run, end)
