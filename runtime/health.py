"""How the runtime does, in words for `/health`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from core.errors import Unavailable
from core.health import Part
from runtime.journal import Journal
from runtime.worker import Worker
from storage.database import Database

WORKING: Final = ("serve", "worker")
"""Kinds of processes that take runs from the queue."""

BACK = "It goes on by itself once the database answers; nothing is lost meanwhile."


async def worker_part(
    database: Database, worker: Worker, journal: Journal, *, listening: bool
) -> Part:
    """Return how the part does that takes runs from the queue and carries them out."""
    facts: dict[str, Any] = {"running": worker.running, "seats": worker.seats}
    try:
        async with database.work() as work:
            facts["queued"] = (await work.runs.counts(""))[1]
    except Unavailable as away:
        return Part("worker", "down", away.message, BACK, needed=True, facts=facts)
    if not worker.working:
        cause = "The worker does not listen for runs at this moment."
        return Part("worker", "down", cause, BACK, needed=True, facts=facts)
    if journal.away_since is not None:
        cause = "Events wait for the database."
        return Part("worker", "degraded", cause, BACK, needed=True, facts=facts)
    if not listening:
        cause = "Notifications of other processes do not arrive at this moment."
        return Part("worker", "degraded", cause, BACK, needed=True, facts=facts)
    return Part("worker", "ok", needed=True, facts=facts)


async def workers_part(database: Database, since: datetime) -> Part:
    """Return how the workers do that carry out the runs which this process only gives and follows.

    Args:
        database: where they give their signs of life.
        since: whoever gave none since then is dead.
    """
    try:
        async with database.work() as work:
            owners = await work.owners.alive(since)
            queued = (await work.runs.counts(""))[1]
    except Unavailable as away:
        return Part("worker", "down", away.message, BACK, needed=True)
    workers = [owner for owner in owners if owner.kind in WORKING]
    facts = {"processes": len(workers), "queued": queued}
    if not workers:
        cause = "No process carries out runs; they wait in the queue."
        return Part(
            "worker", "down", cause, "Start `graphwright worker`.", needed=True, facts=facts
        )
    return Part("worker", "ok", needed=True, facts=facts)
