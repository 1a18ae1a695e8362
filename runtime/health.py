"""How the runtime does, in words for `/health`."""

from __future__ import annotations

from typing import Any

from core.errors import Unavailable
from core.health import Part
from runtime.journal import Journal
from runtime.worker import Worker
from storage.database import Database

BACK = "It goes on by itself once the database answers; nothing is lost meanwhile."


async def worker_part(
    database: Database, worker: Worker | None, journal: Journal, *, listening: bool
) -> Part:
    """Return how the part does that takes runs from the queue and carries them out."""
    if worker is None:
        return Part(
            "worker",
            "off",
            "This process carries out no runs.",
            "Start `graphwright serve` as well.",
        )
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
