"""Decides what becomes of a run that its process did not bring to an end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from core.errors import RunLost
from core.log import bind, get_logger
from core.records import RunRecord
from core.settings import Settings
from runtime import ending
from runtime.claims import Claims
from runtime.drive import Drive
from runtime.engine import Engine

log = get_logger(__name__)


class Recovery:
    """Lets abandoned runs go on where that is safe, and ends them honestly where it is not."""

    def __init__(
        self,
        engine: Engine,
        claims: Claims,
        settings: Settings,
        go_on: Callable[[RunRecord], Awaitable[None]] | None = None,
    ) -> None:
        """Decide about runs that this process holds.

        Args:
            engine: ends those that must not go on.
            claims: holds them.
            settings: say how often a run may be taken over.
            go_on: what is done with those that may; they are queued again where missing.
        """
        self._engine = engine
        self._settings = settings
        self._go_on = go_on or claims.put_back

    async def decide(self, run: RunRecord) -> None:
        """Queue a run again, or end it as `interrupted` with the reason; never raises.

        The run is held by this process, and nobody drives it.
        """
        with bind(trace_id=run.trace_id, run_id=run.id, session_id=run.session_id):
            try:
                await self._engine.attend(run, self._decide)
            except RunLost as lost:
                log.warning("another process deals with this run by now: %s", lost.message)
            except Exception:  # boundary: one run that cannot be recovered must not stop others
                log.exception("an abandoned run could not be recovered")

    # Helpers ----------------------------------------------------------------------------

    async def _decide(self, drive: Drive) -> None:
        run = drive.run
        if run.cancel_requested:
            await ending.cancel(drive)
            return
        reason = self._reason(run)
        if reason is None:
            await self._go_on(run)
        else:
            await ending.lose(drive, reason)

    def _reason(self, run: RunRecord) -> RunLost | None:
        """Return why the run must not go on, or none where it may."""
        broken_off = run.takeovers + 1
        if broken_off < self._settings.max_attempts:
            return None
        return RunLost(
            f"The server stopped during this run, {broken_off} times in all. "
            "Send another message to go on from here."
        )
