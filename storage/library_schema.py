"""Tables that libraries bring: LangGraph's checkpoints and procrastinate's queue.

Applied after our own migrations, with their own migration steps. The table `library_versions`
says which release they were brought to, so that an up-to-date database costs one query.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any, Final, cast

from psycopg import AsyncConnection
from psycopg.rows import DictRow

from core.errors import Unavailable

CHECKPOINTS: Final = "langgraph-checkpoint-postgres"
QUEUE: Final = "procrastinate"

Connection = AsyncConnection[DictRow]
"""In autocommit mode, with rows as dicts."""


def wanted() -> dict[str, str]:
    """Return the release of each library that is installed."""
    return {name: importlib.metadata.version(name) for name in (CHECKPOINTS, QUEUE)}


async def behind(connection: Connection) -> list[str]:
    """Return the libraries whose tables are not those of the installed release."""
    cursor = await connection.execute("SELECT library, version FROM library_versions")
    there = {row["library"]: row["version"] for row in await cursor.fetchall()}
    return [name for name, version in wanted().items() if there.get(name) != version]


async def apply(connection: Connection) -> None:
    """Bring the libraries' tables to the installed release. Hold the migration lock."""
    for name in await behind(connection):
        if name == CHECKPOINTS:
            detail = await _checkpoints(connection)
        else:
            detail = await _queue(connection)
        await connection.execute(
            "INSERT INTO library_versions (library, version, detail) VALUES (%s, %s, %s) "
            "ON CONFLICT (library) DO UPDATE SET version = excluded.version, "
            "detail = excluded.detail",
            (name, wanted()[name], detail),
        )


async def _checkpoints(connection: Connection) -> str:
    """Let the saver set up its tables; it knows its own steps and builds indexes concurrently."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    await AsyncPostgresSaver(cast("Any", connection)).setup()
    return str(len(AsyncPostgresSaver.MIGRATIONS) - 1)


async def _queue(connection: Connection) -> str:
    """Apply the queue's whole schema, or the migration files since the recorded one.

    The files are read as text: this room does not import the library.
    """
    folder = _sql_folder()
    steps = sorted(path.name for path in (folder / "migrations").glob("*.sql"))
    cursor = await connection.execute(
        "SELECT detail FROM library_versions WHERE library = %s", (QUEUE,)
    )
    recorded = await cursor.fetchone()
    if recorded is None:
        files = [folder / "schema.sql"]
    else:
        files = [folder / "migrations" / name for name in steps if name > recorded["detail"]]
    for file in files:
        # Without parameters, so that `%` in the text means itself; one file, one transaction.
        async with connection.transaction():
            await connection.execute(cast("Any", file.read_text(encoding="utf-8")))
    return steps[-1]


def _sql_folder() -> Path:
    spec = importlib.util.find_spec(QUEUE)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    if not places:
        raise Unavailable("The package procrastinate is not installed.")
    return Path(places[0]) / "sql"
