"""Rows of tool results: the whole of what a call gave, beside the message that asked for it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from core.errors import NotFound
from core.principal import Principal
from core.records import ToolResultRecord
from storage.repository import Repository, owner_of, scope, to_record, to_row
from storage.tables import tool_results


class ToolResults(Repository):
    """`work.tool_results`."""

    async def add(self, principal: Principal, result: ToolResultRecord) -> None:
        """Store the result of a call; the first one that was stored stays."""
        row = to_row(result, tool_results) | owner_of(principal)
        await self._execute(insert(tool_results).values(row).on_conflict_do_nothing())

    async def get(
        self, principal: Principal, message_id: str, tool_call_id: str
    ) -> ToolResultRecord:
        """Return the result of one call.

        Raises:
            NotFound: there is none, or it is somebody else's.
        """
        row = await self._one(
            select(tool_results).where(
                scope(tool_results, principal),
                tool_results.c.message_id == message_id,
                tool_results.c.tool_call_id == tool_call_id,
            )
        )
        if row is None:
            raise NotFound
        return to_record(ToolResultRecord, row)

    async def of_session(
        self, session_id: str, message_ids: Sequence[str] | None = None
    ) -> list[ToolResultRecord]:
        """Return the results in a session that the caller has already read.

        Args:
            session_id: the session.
            message_ids: only those of these messages; missing means all.
        """
        statement = select(tool_results).where(tool_results.c.session_id == session_id)
        if message_ids is not None:
            statement = statement.where(tool_results.c.message_id.in_(message_ids))
        order = (tool_results.c.created_at, tool_results.c.tool_call_id)
        rows = await self._all(statement.order_by(*order))
        return [to_record(ToolResultRecord, row) for row in rows]
