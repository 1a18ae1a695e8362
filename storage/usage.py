"""Rows of usage: the tokens of every model call, the figures that are billed."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from core.records import UsageRecord
from storage.repository import Repository, to_record, to_row
from storage.tables import usage_events


class UsageEvents(Repository):
    """`work.usage`."""

    async def add(self, usage: UsageRecord) -> None:
        """Store one model call; the same id twice is stored once."""
        row = to_row(usage, usage_events)
        await self._execute(insert(usage_events).values(row).on_conflict_do_nothing())

    async def of_run(self, run_id: str) -> list[UsageRecord]:
        """Return the model calls of a run that the caller has already read, oldest first."""
        rows = await self._all(
            select(usage_events)
            .where(usage_events.c.run_id == run_id)
            .order_by(usage_events.c.created_at, usage_events.c.id)
        )
        return [to_record(UsageRecord, row) for row in rows]
