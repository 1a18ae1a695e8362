"""A real PostgreSQL for tests: the embedded one, shared by all test processes of one run.

`database_url` is the address of a fresh, migrated database; `database` is it, opened.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from core.ids import new_id
from storage.database import Database
from storage.embedded import EmbeddedPostgres
from storage.migrate import migrate
from storage.postgres.home import ADMIN, find_home
from storage.sealing import Keys

FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("postgres_folder")
    # Not under pytest's own folder: as root, the database's system user could not reach it.
    folder = given or tempfile.mkdtemp(prefix="gw-test-")
    config.stash[FOLDER] = Path(folder)
    if not given:
        Path(folder).chmod(0o711)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["postgres_folder"] = str(node.config.stash[FOLDER])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)


def apart(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a loop of its own, whatever loop the test has."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def some_keys() -> Keys:
    """Return the encryption keys of all test databases."""
    return Keys([b"k" * 32], lambda: None)


def with_database(url: str, name: str) -> str:
    """Return the address of another database of the same server."""
    head, _, tail = url.partition("@/")
    return f"{head}@/{name}?{tail.partition('?')[2]}"


def execute(url: str, statement: sql.Composable | str, values: tuple[Any, ...] = ()) -> list[Any]:
    """Run one statement on a connection of its own and return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def administration(config: pytest.Config) -> str:
    """Return the address under which the test server's administrator works."""
    home = find_home(config.stash[FOLDER] / "data")
    assert home is not None
    return home.url(role=ADMIN, database="postgres")


def hurry(admin: str) -> None:
    """Let the test server not wait for the disk: its data is thrown away."""
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        execute(admin, f"ALTER SYSTEM SET {setting} = off")
    execute(admin, "SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a migrated database that nobody uses: the pattern of all others."""
    folder = request.config.stash[FOLDER] / "data"
    server = apart(EmbeddedPostgres.start(folder, say=lambda _: None))
    try:
        apart(migrate(server.url))
        hurry(administration(request.config))
        yield server.url
    finally:
        apart(server.leave())


@pytest.fixture
def database_url(postgres: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a fresh, migrated database."""
    server = with_database(postgres, "postgres")
    name = f"test_{new_id().replace('-', '')}"
    pattern = str(conninfo_to_dict(postgres)["dbname"])
    execute(
        server,
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(
            sql.Identifier(name), sql.Identifier(pattern)
        ),
    )
    yield with_database(postgres, name)
    # Only an administrator may stop the server's own processes, should one clean up in it.
    server = administration(request.config)
    dropping = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
    # A process that another test has stopped holds this up; the cluster is thrown away anyway.
    with suppress(psycopg.errors.QueryCanceled):
        execute(f"{server}&options=-c%20statement_timeout%3D20s", dropping)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A fresh, migrated database, opened."""
    opened = await Database.open(database_url, pool_size=8, keys=some_keys())
    yield opened
    await opened.close()
