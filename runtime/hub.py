"""Tells those who watch a run, in this process, what was stored."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from core.events import StoredEvent

QUEUE_LIMIT = 512
"""Events kept for one watcher; a slower one reads the rest from the database."""


class Subscription:
    """What one watcher has not read yet; bounded, never blocking who writes."""

    def __init__(self) -> None:
        self._events: deque[StoredEvent] = deque()
        self._woken = asyncio.Event()
        self._look = False
        self.told = 0
        """Highest number that this subscription has heard of."""

    def push(self, events: Sequence[StoredEvent]) -> None:
        """Take stored events, or drop the lot where the watcher is too slow."""
        self.told = max(self.told, events[-1].seq)
        if len(self._events) + len(events) > QUEUE_LIMIT:
            self.look()
            return
        self._events.extend(events)
        self._woken.set()

    def look(self) -> None:
        """Say that the database knows more than this queue."""
        self._events.clear()
        self._look = True
        self._woken.set()

    async def next(self, patience: float) -> list[StoredEvent] | None:
        """Return what came since the last call, or `None`: look in the database.

        Args:
            patience: seconds after which to look in the database anyhow, which makes up
                for a notification that was lost with its connection.
        """
        try:
            async with asyncio.timeout(patience):
                await self._woken.wait()
        except TimeoutError:
            return None
        self._woken.clear()
        if self._look:
            self._look = False
            return None
        events = list(self._events)
        self._events.clear()
        return events


class Hub:
    """The watchers of this process, by run."""

    def __init__(self) -> None:
        self._watchers: dict[str, set[Subscription]] = {}

    def subscribe(self, run_id: str) -> Subscription:
        """Begin to watch; whoever subscribes must unsubscribe."""
        subscription = Subscription()
        self._watchers.setdefault(run_id, set()).add(subscription)
        return subscription

    def unsubscribe(self, run_id: str, subscription: Subscription) -> None:
        """Stop watching."""
        watchers = self._watchers.get(run_id, set())
        watchers.discard(subscription)
        if not watchers:
            self._watchers.pop(run_id, None)

    def publish(self, run_id: str, events: Sequence[StoredEvent]) -> None:
        """Pass on events that this process has just committed."""
        if events:
            for subscription in self._watchers.get(run_id, ()):
                subscription.push(events)

    def heard(self, run_id: str, last_seq: int) -> None:
        """Take another process's word that a run has events up to `last_seq`."""
        for subscription in self._watchers.get(run_id, ()):
            if last_seq > subscription.told:
                subscription.told = last_seq
                subscription.look()

    def look_everywhere(self) -> None:
        """Make every watcher look in the database: notifications may have been missed."""
        for watchers in self._watchers.values():
            for subscription in watchers:
                subscription.look()

    @property
    def watchers(self) -> int:
        """How many watch, over all runs."""
        return sum(len(watchers) for watchers in self._watchers.values())
