"""Rows of owners: processes that carry out runs, alive as long as they beat."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert

from core.records import OwnerRecord
from storage.repository import Repository, to_record, to_row
from storage.tables import owners

_CUT_OFF: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = ANY(%s)
"""


def connection_name(owner_id: str) -> str:
    """Return the name that the connections of a process have in the database."""
    return f"graphwright {owner_id}"


class Owners(Repository):
    """`work.owners`."""

    async def register(self, owner: OwnerRecord) -> None:
        """Add a process, or renew it."""
        statement = insert(owners).values(to_row(owner, owners))
        await self._execute(
            statement.on_conflict_do_update(
                index_elements=["id"], set_={"beat_at": statement.excluded.beat_at}
            )
        )

    async def beat(self, owner_id: str, at: datetime) -> bool:
        """Say that a process lives; false where it is not known any more."""
        beat = update(owners).where(owners.c.id == owner_id).values(beat_at=at)
        return bool(await self._changed(beat))

    async def leave(self, owner_id: str) -> None:
        """Take a process off the list."""
        await self._execute(delete(owners).where(owners.c.id == owner_id))

    async def alive(self, after: datetime) -> list[OwnerRecord]:
        """Return the processes that beat after that moment."""
        rows = await self._all(
            select(owners).where(owners.c.beat_at > after).order_by(owners.c.started_at)
        )
        return [to_record(OwnerRecord, row) for row in rows]

    async def cut_off(self, before: datetime) -> int:
        """End the connections of processes that have not beaten since, and return how many.

        One that was stopped in the middle of a transaction holds its rows for as long as it
        is stopped. Whatever it had not committed is rolled back; awake again, it connects anew
        and finds that its runs are not its own any more.
        """
        dead = await self._all(select(owners.c.id).where(owners.c.beat_at < before))
        names = [connection_name(row["id"]) for row in dead]
        if not names:
            return 0
        cursor = await self._raw.execute(_CUT_OFF, (names,))
        return len(await cursor.fetchall())

    async def forget(self, before: datetime) -> int:
        """Take those off the list that have not beaten since, and return how many."""
        return await self._changed(delete(owners).where(owners.c.beat_at < before))
