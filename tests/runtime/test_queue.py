"""The queue of tickets: what comes at a bad moment is taken all the same, and at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from core.clock import SystemClock
from runtime.queue import Tickets
from storage.database import Database
from tests.support.app import eventually

SOON = 3.0
"""Seconds; the next poll of the queue would be five away."""


@dataclass
class Counter:
    """A queue, and what was issued, heard and taken."""

    database: Database
    tickets: Tickets
    issued: int = 0
    taken: int = 0
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def manager(self) -> Any:
        """What the worker asks for jobs."""
        return self.tickets._app.job_manager

    async def issue(self) -> None:
        """Add a ticket."""
        self.heard.clear()
        async with self.database.work() as work:
            await self.tickets.issue(work.connection)
        self.issued += 1

    async def take(self) -> None:
        """Take a ticket, as the worker does."""
        self.taken += 1

    async def all_taken(self) -> None:
        """Wait until nothing is left, for less time than a poll takes."""
        await eventually(lambda: self.taken == self.issued, SOON)


@pytest.fixture
async def counter(database: Database) -> AsyncIterator[Counter]:
    """An open queue that nobody works off yet."""
    tickets = Tickets(database.url, SystemClock())
    await tickets.open()
    yield Counter(database, tickets)
    await tickets.stop()
    await tickets.close()


@pytest.mark.req("EXEC-32", "EXEC-22")
async def test_a_ticket_that_comes_while_a_fetch_ends_is_taken_at_once(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
):
    fetch, listen = counter.manager.fetch_job, counter.manager.listen_for_jobs
    late: list[str] = []

    async def fetch_and_be_late(**options: Any) -> Any:
        job = await fetch(**options)
        if job is None and late == ["armed"]:
            # The fetch has looked and found nothing; now a ticket is issued and announced.
            late.append("issued")
            await counter.issue()
            await asyncio.wait_for(counter.heard.wait(), 5)
        return job

    async def listen_and_tell(*, on_notification: Any, **options: Any) -> None:
        async def told(**news: Any) -> None:
            await on_notification(**news)
            counter.heard.set()

        await listen(on_notification=told, **options)

    monkeypatch.setattr(counter.manager, "fetch_job", fetch_and_be_late)
    monkeypatch.setattr(counter.manager, "listen_for_jobs", listen_and_tell)
    counter.tickets.start(counter.take, 1)
    await asyncio.wait_for(counter.heard.wait(), 10)  # it listens
    late.append("armed")
    await counter.issue()
    await eventually(lambda: late == ["armed", "issued"])
    await counter.all_taken()


@pytest.mark.req("EXEC-32", "OPS-05")
async def test_a_ticket_that_comes_before_the_worker_listens_is_taken_at_once(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
):
    fetch, listen = counter.manager.fetch_job, counter.manager.listen_for_jobs
    looked = asyncio.Event()

    async def fetch_and_tell(**options: Any) -> Any:
        job = await fetch(**options)
        looked.set()
        return job

    async def listen_late(**options: Any) -> None:
        await looked.wait()
        await counter.issue()
        await listen(**options)

    monkeypatch.setattr(counter.manager, "fetch_job", fetch_and_tell)
    monkeypatch.setattr(counter.manager, "listen_for_jobs", listen_late)
    counter.tickets.start(counter.take, 1)
    await eventually(lambda: counter.issued == 1)
    await counter.all_taken()
