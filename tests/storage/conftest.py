"""Principals, sessions and runs to begin with; clusters to break."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.ids import new_id
from core.principal import Principal
from core.records import RunRecord, SessionRecord
from core.types import RunKind, UserId, WorkspaceId
from storage.database import Database
from storage.embedded import EmbeddedPostgres
from tests.storage.cluster import Member
from tests.support.postgres import apart

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


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that root's system user can reach, unlike those under pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="gw-test-"))
    folder.chmod(0o755)
    yield folder
    for note in folder.rglob("pg.location"):
        shutil.rmtree(note.read_text().strip(), ignore_errors=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def pattern() -> Iterator[Path]:
    """A data folder with a cluster that was set up once and is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="gw-test-"))
    folder.chmod(0o755)

    async def set_up() -> None:
        server = await EmbeddedPostgres.start(folder / "data", say=lambda _: None)
        await server.leave()

    apart(set_up())
    yield folder / "data"
    shutil.rmtree(folder)


@pytest.fixture
def data(place: Path, pattern: Path) -> Path:
    """A copy of that folder, for this test alone."""
    subprocess.run(["cp", "-a", pattern, place], check=True)
    return place / "data"


@pytest.fixture
def member() -> Iterator[Callable[..., Member]]:
    """Start members; whoever is left at the end of the test leaves."""
    made: list[Member] = []

    def start(*args: str | Path) -> Member:
        made.append(Member(*args))
        return made[-1]

    yield start
    for one in made:
        one.leave()
