"""Rows of archives: what summarising took out of the model's view, and where it is kept."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from core.principal import Principal
from core.records import ArchiveRecord
from storage.repository import Repository, owner_of, scope, to_record, to_row
from storage.tables import archives


class Archives(Repository):
    """`work.archives`."""

    async def add(self, principal: Principal, archive: ArchiveRecord) -> None:
        """Store one summarisation; the same id twice is stored once."""
        row = {**to_row(archive, archives), **owner_of(principal)}
        await self._execute(insert(archives).values(row).on_conflict_do_nothing())

    async def list(self, principal: Principal, session_id: str) -> list[ArchiveRecord]:
        """Return a session's summarisations, oldest first; none for a foreign session."""
        rows = await self._all(
            select(archives)
            .where(scope(archives, principal), archives.c.session_id == session_id)
            .order_by(archives.c.created_at, archives.c.id)
        )
        return [to_record(ArchiveRecord, row) for row in rows]
