"""Follows one run: first what is stored, then what comes; nothing lost, nothing doubled."""

from __future__ import annotations

from collections.abc import AsyncIterator

from core.errors import Unavailable
from core.events import StoredEvent
from core.principal import Principal
from core.types import RunStatus
from runtime.hub import Hub, Subscription
from storage.database import Database

PAGE = 500
"""Stored events read at once."""

PATIENCE = 10.0
"""Seconds without news after which the database is asked anyhow."""

RETRY = 0.5
"""Seconds between two tries while the database is away."""

GOING = (RunStatus.QUEUED, RunStatus.RUNNING)


class Follower:
    """Gives out the events of runs to those who may see them."""

    def __init__(self, database: Database, hub: Hub) -> None:
        self._database = database
        self._hub = hub

    async def follow(
        self, principal: Principal, run_id: str, after: int = 0
    ) -> AsyncIterator[StoredEvent]:
        """Yield every event above `after` until the run rests and all were given.

        A number that the run has not reached yet is taken for a mistake: everything is replayed.

        Raises:
            NotFound: no such run of this caller.
        """
        # Subscribed before anything is read: what is stored meanwhile is in the queue.
        subscription = self._hub.subscribe(run_id)
        try:
            last_seq = await self._reached(principal, run_id, subscription)
            reader = _Reader(self._database, subscription, run_id)
            reader.cursor = max(after, 0) if after <= last_seq else 0
            while not reader.ended:
                for event in await reader.read():
                    yield event
        finally:
            self._hub.unsubscribe(run_id, subscription)

    async def _reached(self, principal: Principal, run_id: str, subscription: Subscription) -> int:
        """Return how far a run of this caller has come, waiting for a database that is away."""
        while True:
            try:
                async with self._database.work() as work:
                    return (await work.runs.get(principal, run_id)).last_seq
            except Unavailable:
                await subscription.next(RETRY)


class _Reader:
    """Reads batches, from the database while it is behind, from the hub once it is not."""

    def __init__(self, database: Database, subscription: Subscription, run_id: str) -> None:
        self._database = database
        self._subscription = subscription
        self._run_id = run_id
        self._behind = True
        self.cursor = 0
        self.ended = False

    async def read(self) -> list[StoredEvent]:
        """Return the next events in order; an empty list means: ask again."""
        events = await (self._stored() if self._behind else self._live())
        if events:
            self.cursor = events[-1].seq
        return events

    async def _stored(self) -> list[StoredEvent]:
        try:
            async with self._database.work() as work:
                events, status, last_seq = await work.events.after(self._run_id, self.cursor, PAGE)
        except Unavailable:
            # An outage only delays: nothing can be added meanwhile, and nothing is passed over.
            await self._subscription.next(RETRY)
            return []
        reached = events[-1].seq if events else self.cursor
        self._behind = len(events) == PAGE
        self.ended = status not in GOING and reached >= last_seq
        return events

    async def _live(self) -> list[StoredEvent]:
        heard = await self._subscription.next(PATIENCE)
        fresh = [event for event in heard or () if event.seq > self.cursor]
        if heard is None or (fresh and fresh[0].seq != self.cursor + 1):
            self._behind = True
            return []
        if fresh:
            # After a question the run rests, unless it was answered already: the database knows.
            self._behind = fresh[-1].type == "interrupt"
            self.ended = fresh[-1].type in ("done", "error")
        return fresh
