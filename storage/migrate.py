"""Brings a database to this release's schema: our own revisions, then the libraries' tables.

Any number of processes may start at once: an advisory lock lets one of them work. When
nothing is to be done, two short queries find that out and Alembic is not even loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import psycopg
from psycopg.rows import DictRow, dict_row

from core.clock import Clock, SystemClock
from core.errors import Unavailable
from storage import library_schema
from storage.failures import translated
from storage.migrations import HEAD
from storage.text import context

OLDEST_SERVER: Final = 150000
"""PostgreSQL 15, as the server counts versions."""

LOCK: Final = 0x6777_6D69
"""Key of the advisory lock under which a database is migrated."""

PAUSE: Final = 0.05
"""Seconds between two tries to get the lock."""


async def migrate(url: str, *, clock: Clock | None = None) -> None:
    """Bring the database to this release's schema; does nothing where it is there already.

    Raises:
        Unavailable: the database cannot be reached, is older than PostgreSQL 15, or was
            migrated by a newer release of Graphwright.
    """
    clock = clock or SystemClock()
    async with _connected(url) as connection:
        if not await _pending(connection):
            return
        # Asked for again and again instead of waited for: a waiting statement would keep an old
        # snapshot alive, and the concurrent index builds of the holder wait for old snapshots.
        while not await _value(connection, "SELECT pg_try_advisory_lock(%s)", LOCK):
            await clock.sleep(PAUSE)
        if await _revision(connection) != HEAD:
            await asyncio.to_thread(_upgrade, url)
        await library_schema.apply(connection)


async def pending(url: str) -> list[str]:
    """Return what `migrate` would apply: revisions and libraries by name; empty when up to date.

    Raises:
        Unavailable: as for `migrate`.
    """
    async with _connected(url) as connection:
        return await _pending(connection)


@asynccontextmanager
async def _connected(url: str) -> AsyncGenerator[library_schema.Connection]:
    with translated():
        connection = cast(
            "psycopg.AsyncConnection[DictRow]",
            await psycopg.AsyncConnection.connect(
                url,
                autocommit=True,
                row_factory=cast("Any", dict_row),
                context=context(),
                connect_timeout=10,
            ),
        )
        async with connection:
            if connection.info.server_version < OLDEST_SERVER:
                raise Unavailable(
                    "Graphwright needs PostgreSQL 15 or newer; this server is older. "
                    "Upgrade it, or take DATABASE_URL away to use the embedded one."
                )
            yield connection


async def _value(connection: library_schema.Connection, query: str, *values: Any) -> Any:
    cursor = await connection.execute(cast("Any", query), values)
    row = await cursor.fetchone()
    return next(iter(row.values())) if row else None


async def _revision(connection: library_schema.Connection) -> str | None:
    if await _value(connection, "SELECT to_regclass('alembic_version')") is None:
        return None
    return await _value(connection, "SELECT version_num FROM alembic_version")


async def _pending(connection: library_schema.Connection) -> list[str]:
    at = await _revision(connection)
    if at == HEAD:
        return await library_schema.behind(connection)
    revisions = await asyncio.to_thread(_revisions_after, at)
    return [*revisions, *sorted(library_schema.wanted())]


def _config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _revisions_after(at: str | None) -> list[str]:
    from alembic.script import ScriptDirectory

    known = [step.revision for step in ScriptDirectory.from_config(_config()).walk_revisions()]
    if at is not None and at not in known:
        raise Unavailable(
            f"This database has schema {at}, made by a newer release of Graphwright. "
            "Start that release, or restore a backup made before the upgrade."
        )
    newer = known if at is None else known[: known.index(at)]
    return newer[::-1]


def _upgrade(url: str) -> None:
    """Run the revisions; in a thread, as Alembic knows no asyncio."""
    import sqlalchemy
    from alembic import command

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect(url, connect_timeout=10)

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=connect, poolclass=sqlalchemy.NullPool
    )
    config = _config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        connection.commit()
