"""Procrastinate's worker without its lost wake-ups.

The worker forgets the news of a job once a fetch is over, and hears none before it listens. A
job that came after a fetch has looked and before it is over, or while the connection that
listens was made, would wait for the next poll, seconds away, although seats are free.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.connector import LISTEN_TIMEOUT, Notify
from procrastinate.worker import Worker

NEWS = '{"type": "job_inserted"}'
"""What the library's own notification of a new job says."""


class News(asyncio.Event):
    """An event that takes two clearings where it was set since the last one.

    The first clearing after the news belongs to a fetch that may have looked before them. The
    price is one further fetch that finds nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self._fresh = False

    def set(self) -> None:
        """Take note of news."""
        self._fresh = True
        super().set()

    def clear(self) -> None:
        """Forget news that are not fresh; let fresh ones grow old."""
        if self._fresh:
            self._fresh = False
        else:
            super().clear()


class PromptWorker(Worker):
    """A worker that keeps its news until a fetch has begun after them."""

    def __init__(self, app: App, **options: Any) -> None:
        super().__init__(app, **options)
        self._new_job_event = News()


class PromptApp(App):
    """An application whose worker is prompt."""

    def _worker(self, **kwargs: Any) -> Worker:
        return PromptWorker(self, **{**self.worker_defaults, **kwargs})


class PromptConnector(PsycopgConnector):
    """A connector that takes the beginning of listening, also after a gap, for news."""

    async def _loop_notify(
        self,
        on_notification: Notify,
        connection: psycopg.AsyncConnection,
        timeout: float = LISTEN_TIMEOUT,
    ) -> None:
        await on_notification(channel="graphwright.listening", payload=NEWS)
        await super()._loop_notify(on_notification, connection, timeout)
