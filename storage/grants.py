"""Rows of grants: tools that need no further approval (EXEC-20)."""

from __future__ import annotations

from sqlalchemy import or_, select
from sqlalchemy.dialects.postgresql import insert

from core.ids import new_id
from core.principal import Principal
from storage.repository import Repository, owner_of, scope
from storage.tables import tool_grants


class Grants(Repository):
    """`work.grants`."""

    async def names(self, principal: Principal, session_id: str) -> frozenset[str]:
        """Return the tools granted to the caller for this session or for all of them."""
        here = tool_grants.c.session_id
        rows = await self._all(
            select(tool_grants.c.tool).where(
                scope(tool_grants, principal), or_(here == session_id, here.is_(None))
            )
        )
        return frozenset(row["tool"] for row in rows)

    async def add(self, principal: Principal, session_id: str | None, tool: str) -> None:
        """Grant a tool for one session, or for all of the caller's in this workspace."""
        row = {"id": new_id(), "session_id": session_id, "tool": tool, **owner_of(principal)}
        await self._execute(insert(tool_grants).values(row).on_conflict_do_nothing())
