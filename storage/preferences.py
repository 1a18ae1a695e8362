"""Rows of preferences: what a user wants every agent to know."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert

from core.principal import Principal
from storage.repository import Repository, owner_of, scope
from storage.tables import preferences


class Preferences(Repository):
    """`work.preferences`."""

    async def get(self, principal: Principal) -> dict[str, Any] | None:
        """Return the preferences, or none."""
        row = await self._one(select(preferences.c.data).where(scope(preferences, principal)))
        return None if row is None else row["data"]

    async def put(self, principal: Principal, data: dict[str, Any]) -> None:
        """Replace the preferences."""
        statement = insert(preferences).values({"data": data, **owner_of(principal)})
        await self._execute(
            statement.on_conflict_do_update(
                index_elements=["workspace_id", "user_id"],
                set_={"data": statement.excluded.data, "updated_at": func.now()},
            )
        )

    async def delete(self, principal: Principal) -> None:
        """Remove the preferences."""
        await self._execute(delete(preferences).where(scope(preferences, principal)))
