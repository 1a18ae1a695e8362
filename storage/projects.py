"""Rows of projects: folders that sessions share."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from core.ids import new_id
from core.principal import Principal
from storage.repository import Repository, owner_of, scope
from storage.tables import projects


class Projects(Repository):
    """`work.projects`."""

    async def ensure(self, principal: Principal, name: str | None) -> str:
        """Return the id of the project of that name, made where missing.

        Without a name a new project is made, that of one session.
        """
        row = {"id": new_id(), "name": name, **owner_of(principal)}
        made = await self._one(
            insert(projects).values(row).on_conflict_do_nothing().returning(projects.c.id)
        )
        if made is None:
            made = await self._one(
                select(projects.c.id).where(scope(projects, principal), projects.c.name == name)
            )
        assert made is not None
        return str(made["id"])
