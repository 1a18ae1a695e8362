"""Tickets: anonymous jobs in procrastinate's queue, each of which lets a worker claim one run.

A ticket names no run. Which run goes next is decided when a ticket is taken, in one place
(`runtime/claims.py`), so that fairness does not depend on the order of the queue and a
ticket that is lost with its worker costs nothing: `mend` makes new ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from procrastinate import exceptions, jobs
from psycopg import AsyncConnection

from core.clock import Clock
from core.errors import Unavailable
from runtime.prompt_worker import PromptApp, PromptConnector

TASK = "graphwright.run"
QUEUE = "runs"

STALLED_SECONDS = 30
"""Without a sign of life of the library's worker for so long, a ticket in its hand is void."""

log = logging.getLogger("graphwright.queue")
# Its lines at INFO are several per run and say nothing that ours do not.
logging.getLogger("procrastinate").setLevel(logging.WARNING)


class Tickets:
    """The queue of this process: defers tickets and, where asked, works them off."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = clock
        self._on_ticket: Callable[[], Awaitable[None]] | None = None
        # A pool of its own: the worker's listener opens a connection with the pool's settings.
        connector = PromptConnector(conninfo=url, min_size=1, max_size=4, timeout=10)
        self._app = PromptApp(connector=connector)
        self._app.task(name=TASK, queue=QUEUE)(self._work_one)
        self._worker: asyncio.Task[None] | None = None
        self._ending = False
        self.working = False
        """Whether the worker listens for tickets at this moment."""

    async def open(self) -> None:
        """Connect.

        Raises:
            Unavailable: the database does not answer.
        """
        try:
            await self._app.open_async()
        except exceptions.ConnectorException as away:
            raise Unavailable(f"The queue cannot be reached: {away}") from away

    async def close(self) -> None:
        """Disconnect."""
        await self._app.close_async()

    async def issue(self, connection: AsyncConnection[Any]) -> None:
        """Add one ticket inside the caller's transaction."""
        await self._app.configure_task(TASK, queue=QUEUE, connection=connection).defer_async()

    def start(self, on_ticket: Callable[[], Awaitable[None]], concurrency: int) -> None:
        """Begin to take tickets, at most `concurrency` at a time."""
        self._on_ticket = on_ticket
        self._worker = asyncio.create_task(self._work_for_ever(concurrency), name="worker")

    async def stop(self) -> None:
        """Take no more tickets; those in hand are left to whoever drives their runs."""
        self._ending = True
        worker = self._worker
        while worker is not None and not worker.done():
            # Once may be lost: what fails while the library's worker ends takes its place.
            worker.cancel()
            await asyncio.wait({worker}, timeout=1)

    async def mend(self, queued: int) -> int:
        """Make up for lost tickets, and clear away those of dead workers.

        Args:
            queued: runs that wait.

        Returns:
            How many tickets were added.
        """
        manager = self._app.job_manager
        for dead in await manager.get_stalled_jobs(
            queue=QUEUE, seconds_since_heartbeat=STALLED_SECONDS
        ):
            with contextlib.suppress(exceptions.ConnectorException):
                await manager.finish_job(dead, status=jobs.Status.FAILED, delete_job=True)
        queues = list(await manager.list_queues_async(queue=QUEUE))
        waiting = int(queues[0]["todo"]) if queues else 0
        missing = max(queued - waiting, 0)
        if missing:
            deferrer = self._app.configure_task(TASK, queue=QUEUE)
            tickets: list[dict[str, Any]] = [{} for _ in range(missing)]
            await deferrer.batch_defer_async(*tickets)
        return missing

    async def depth(self) -> int:
        """Return how many tickets wait."""
        queues = list(await self._app.job_manager.list_queues_async(queue=QUEUE))
        return int(queues[0]["todo"]) if queues else 0

    # Helpers ----------------------------------------------------------------------------

    async def _work_one(self) -> None:
        if self._on_ticket is not None:
            await self._on_ticket()

    async def _work_for_ever(self, concurrency: int) -> None:
        """Run procrastinate's worker, and start it again when the database was away."""
        wait = 0.2
        while not self._ending:
            began = self._clock.monotonic()
            try:
                self.working = True
                await self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=concurrency,
                    install_signal_handlers=False,
                    delete_jobs="always",
                    # Runs are carried out by tasks of their own, which a restart does not touch.
                    shutdown_graceful_timeout=0.1,
                )
            except asyncio.CancelledError:
                raise
            except Exception as fell:  # boundary: the worker must come back whatever stopped it
                log.warning("the worker stopped and starts again", exc_info=fell)
            finally:
                self.working = False
            wait = 0.2 if self._clock.monotonic() - began > 30 else min(wait * 2, 5)
            await self._clock.sleep(wait)
