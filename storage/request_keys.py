"""Rows of request keys: the same request never runs twice (CHAT-04)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert

from core.errors import DuplicateRequest
from core.principal import Principal
from storage.repository import Repository, owner_of, scope
from storage.tables import request_keys


class RequestKeys(Repository):
    """`work.request_keys`."""

    async def use(
        self, principal: Principal, request_id: str, session_id: str, run_id: str
    ) -> None:
        """Use up a key for this run. A key outlives its session.

        A second transaction with the same key waits here until the first one has ended.

        Raises:
            DuplicateRequest: it was used; the details have the first `session_id` and `run_id`.
        """
        row = {"request_id": request_id, "session_id": session_id, "run_id": run_id}
        statement = insert(request_keys).values({**row, **owner_of(principal)})
        used = statement.on_conflict_do_nothing().returning(request_keys.c.run_id)
        if await self._one(used) is None:
            raise DuplicateRequest(details=await self._first(principal, request_id))

    async def reuse(
        self,
        principal: Principal,
        request_id: str,
        session_id: str,
        run_id: str,
        instead_of: str,
    ) -> None:
        """Let a key stand for another run, where it still stands for the one that is known.

        Of two transactions that replace the same run only one does.

        Raises:
            DuplicateRequest: it stands for another run already; the details have that one.
        """
        change = update(request_keys).where(
            scope(request_keys, principal),
            request_keys.c.request_id == request_id,
            request_keys.c.run_id == instead_of,
        )
        if not await self._changed(change.values(session_id=session_id, run_id=run_id)):
            raise DuplicateRequest(details=await self._first(principal, request_id))

    async def of(self, principal: Principal, request_ids: Sequence[str]) -> dict[str, str]:
        """Return the runs that these keys stand for, by key; unknown keys are left out."""
        rows = await self._all(
            select(request_keys.c.request_id, request_keys.c.run_id).where(
                scope(request_keys, principal), request_keys.c.request_id.in_(request_ids)
            )
        )
        return {row["request_id"]: row["run_id"] for row in rows}

    async def _first(self, principal: Principal, request_id: str) -> dict[str, str]:
        found = await self._one(
            select(request_keys.c.session_id, request_keys.c.run_id).where(
                scope(request_keys, principal), request_keys.c.request_id == request_id
            )
        )
        return dict(found) if found is not None else {}
