"""Runs that are held in this process's name while nobody here deals with them.

The reply to a claim's commit can be lost with its connection: the run is ours then, and
running by its row, but nobody drives it, and as long as this process lives nobody else may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from core.log import get_logger
from core.records import RunRecord
from runtime.claims import Claims
from runtime.engine import Active, Engine, Stop

log = get_logger(__name__)


class Strays:
    """Finds such runs and decides about them as about those of a dead process."""

    def __init__(
        self, claims: Claims, engine: Engine, decide: Callable[[RunRecord], Awaitable[None]]
    ) -> None:
        self._claims = claims
        self._engine = engine
        self.decide = decide
        """What is done about one."""
        self._seen: set[tuple[str, int]] = set()

    async def look(self) -> None:
        """Stop what its user wants to end, and take care of what was idle at two looks in a row.

        One look is not enough: a claim that was just committed is not under way yet.

        Raises:
            Unavailable: the database is away.
        """
        idle: set[tuple[str, int]] = set()
        # Before the question: whatever is under way by now was claimed, and shows in the answer.
        under_way = list(self._engine.active.values())
        held = await self._claims.held()
        self._let_go(under_way, held)
        for run in held:
            if run.cancel_requested:
                # Makes up for a notification that was lost with its connection.
                self._engine.cancel(run.id)
            if self._engine.deals_with(run.id):
                continue
            if (run.id, run.attempt) in self._seen:
                log.warning("a run of this process was idle", extra={"kv": {"run": run.id}})
                await self.decide(run)
            else:
                idle.add((run.id, run.attempt))
        self._seen = idle

    def _let_go(self, under_way: Sequence[Active], held: Sequence[RunRecord]) -> None:
        """Stop drives whose run another process took over, while this one seemed to be dead."""
        ours = {(run.id, run.attempt) for run in held}
        for active in under_way:
            if (active.run.id, active.run.attempt) not in ours:
                # One that has just ended is not there either; it has nothing left to stop.
                active.request(Stop.HAND_OVER)
