"""Principals, sessions and runs to begin with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from core.ids import new_id
from core.principal import Principal
from core.records import RunRecord, SessionRecord
from core.types import RunKind, UserId, WorkspaceId
from storage.database import Database

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class World:
    """A database with two users, and short ways to make rows."""

    database: Database
    ann: Principal
    bob: Principal

    async def session(self, principal: Principal | None = None, **fields: Any) -> SessionRecord:
        principal = principal or self.ann
        given = {"agent": "assistant", "title": "A talk", "mode": "full", "model": None}
        given |= {"thinking": None, "at": AT, "project": None} | fields
        async with self.database.work() as work:
            project_id = await work.projects.ensure(principal, given.pop("project"))
            return await work.sessions.create(
                id=new_id(), principal=principal, project_id=project_id, **given
            )

    async def run(self, session: SessionRecord, **fields: Any) -> RunRecord:
        owner = self.ann if session.user_id == self.ann.user_id else self.bob
        given = {"kind": RunKind.CHAT, "agent": "assistant", "model": "m", "mode": "full"}
        given |= {"trace_id": "t", "input": {}, "on_disconnect": "continue", "at": AT} | fields
        async with self.database.work() as work:
            return await work.runs.create(
                id=new_id(), principal=owner, session_id=session.id, **given
            )


async def _user(database: Database, name: str) -> Principal:
    async with database.work() as work:
        workspace_id = await work.identity.ensure_default_workspace()
        user = await work.identity.ensure_user(workspace_id, name, "member")
    return Principal(WorkspaceId(workspace_id), UserId(user.id), name, "script")


@pytest.fixture
async def world(database: Database) -> World:
    """Two users, Ann and Bob, in one workspace of a fresh database."""
    return World(database, await _user(database, "ann"), await _user(database, "bob"))
