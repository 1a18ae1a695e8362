"""Rows of interrupts: questions to people, each answered once (EXEC-21)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, select, update
from sqlalchemy.dialects.postgresql import insert

from core.errors import NoPendingInterrupt, NotFound, StaleInterrupt
from core.principal import Principal
from core.records import InterruptRecord
from core.types import InterruptKind, InterruptStatus
from storage.repository import Repository, scope, to_record, to_row
from storage.tables import interrupts, sessions


class Interrupts(Repository):
    """`work.interrupts`."""

    async def add(self, interrupt: InterruptRecord) -> None:
        """Store a question; the same id twice is stored once."""
        statement = insert(interrupts).values(to_row(interrupt, interrupts))
        await self._execute(statement.on_conflict_do_nothing(index_elements=["id"]))

    async def pending(self, principal: Principal, session_id: str) -> InterruptRecord | None:
        """Return what waits for an answer in a session of the caller, or none."""
        row = await self._one(
            select(interrupts).where(
                scope(interrupts, principal),
                interrupts.c.session_id == session_id,
                interrupts.c.status == InterruptStatus.PENDING,
            )
        )
        return None if row is None else _record(row)

    async def take(self, principal: Principal, session_id: str, token: str) -> InterruptRecord:
        """Return the question that this token answers, under the session's lock.

        Of two transactions with one token the second waits here for the first, and is then told
        that the token is spent, once the first has called `resolve`.

        Raises:
            NotFound: no such session, or somebody else's.
            NoPendingInterrupt: nothing waits in this session.
            StaleInterrupt: the token is spent, or of another question.
        """
        locked = await self._one(
            select(sessions.c.id)
            .where(scope(sessions, principal), sessions.c.id == session_id)
            .with_for_update()
        )
        if locked is None:
            raise NotFound
        rows = await self._all(
            select(interrupts)
            .where(
                interrupts.c.session_id == session_id,
                (interrupts.c.token == token) | (interrupts.c.status == InterruptStatus.PENDING),
            )
            .with_for_update()
        )
        for row in rows:
            if row["token"] == token and row["status"] == InterruptStatus.PENDING:
                return _record(row)
        if not rows:
            raise NoPendingInterrupt
        raise StaleInterrupt(details=_decided(rows, token))

    async def resolve(
        self, interrupt_id: str, decisions: Sequence[dict[str, Any]], by: str, at: datetime
    ) -> None:
        """Spend a question with its answer.

        Raises:
            StaleInterrupt: it is not pending (any more).
        """
        change = update(interrupts).where(
            interrupts.c.id == interrupt_id, interrupts.c.status == InterruptStatus.PENDING
        )
        values = {"decisions": list(decisions), "resolved_by": by, "resolved_at": at}
        if not await self._changed(change.values(status=InterruptStatus.RESOLVED, **values)):
            raise StaleInterrupt

    async def withdraw(self, run_id: str, at: datetime) -> list[InterruptRecord]:
        """Take back what a run asked and nobody answered, and return it."""
        rows = (
            await self._execute(
                update(interrupts)
                .where(
                    interrupts.c.run_id == run_id,
                    interrupts.c.status == InterruptStatus.PENDING,
                )
                .values(status=InterruptStatus.WITHDRAWN, resolved_at=at)
                .returning(interrupts)
            )
        ).mappings()
        return [_record(row) for row in rows]


def _decided(rows: Sequence[RowMapping], token: str) -> dict[str, Any]:
    """Return what was decided with a spent token, by whom and when; empty where it is unknown."""
    for row in rows:
        if row["token"] == token:
            return {
                "status": row["status"],
                "decisions": row["decisions"] or [],
                "by": row["resolved_by"],
                "at": row["resolved_at"].isoformat() if row["resolved_at"] else None,
            }
    return {}


def _record(row: RowMapping) -> InterruptRecord:
    return to_record(
        InterruptRecord,
        row,
        kind=InterruptKind(row["kind"]),
        status=InterruptStatus(row["status"]),
    )
