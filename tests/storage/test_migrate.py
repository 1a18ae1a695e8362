"""Migrations: the schema is the one in the tables, brought there once by anybody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg import sql

from core.errors import Unavailable
from core.ids import new_id
from storage import library_schema
from storage.database import Database
from storage.migrate import migrate, pending
from storage.migrations import HEAD
from storage.tables import metadata
from tests.support.postgres import execute, some_keys, with_database


@pytest.fixture
def empty_url(postgres: str) -> Iterator[str]:
    """The address of a database without any table."""
    server, name = with_database(postgres, "postgres"), f"test_{new_id().replace('-', '')}"
    execute(server, sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield with_database(postgres, name)
    execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.req("OPS-02", "OPS-10")
def test_the_migrated_schema_is_that_of_the_tables(database_url: str):
    engine = sqlalchemy.create_engine(
        database_url.replace("postgresql://", "postgresql+psycopg://"),
        poolclass=sqlalchemy.NullPool,
    )
    libraries = ("checkpoint", "procrastinate", "alembic")

    def ours(item, name, kind, reflected, compared):
        table = name if kind == "table" else item.table.name
        return not table.startswith(libraries)

    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_object": ours,
                "compare_type": True,
                "compare_server_default": True,
            },
        )
        assert compare_metadata(context, metadata) == []


@pytest.mark.req("OPS-10")
def test_the_noted_head_is_the_newest_revision():
    folder = Path(library_schema.__file__).parent / "migrations"
    assert ScriptDirectory(str(folder)).get_current_head() == HEAD


@pytest.mark.req("OPS-10")
async def test_processes_that_migrate_together_do_it_once(empty_url: str):
    libraries = [library_schema.CHECKPOINTS, library_schema.QUEUE]
    assert await pending(empty_url) == ["0001", "0002", *libraries]
    await asyncio.gather(*(migrate(empty_url) for _ in range(4)))
    assert await pending(empty_url) == []
    await migrate(empty_url)
    database = await Database.open(empty_url, pool_size=2, keys=some_keys())
    try:
        async with database.work() as work:
            queue = await work.connection.execute("SELECT count(*) FROM procrastinate_jobs")
            assert await queue.fetchone() == (0,)
    finally:
        await database.close()


@pytest.mark.req("OPS-10")
def test_migration_files_of_a_newer_queue_are_applied_once_each(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    steps = tmp_path / "migrations"
    steps.mkdir()
    names = ["00.00.00_01_old.sql", "99.00.00_01_new.sql", "99.00.00_50_newer.sql"]
    texts = ["SELECT 1/0", "CREATE TABLE added (a int)", "INSERT INTO added VALUES (10 % 3)"]
    for name, text in zip(names, texts, strict=True):
        (steps / name).write_text(text)
    monkeypatch.setattr(library_schema, "_sql_folder", lambda: tmp_path)
    wanted = library_schema.wanted()
    newer = wanted | {library_schema.QUEUE: "99.0"}
    monkeypatch.setattr(library_schema, "wanted", lambda: newer)
    assert asyncio.run(pending(database_url)) == [library_schema.QUEUE]
    asyncio.run(migrate(database_url))
    asyncio.run(migrate(database_url))
    assert execute(database_url, "SELECT a FROM added") == [(1,)]
    assert asyncio.run(pending(database_url)) == []


@pytest.mark.req("OPS-10")
async def test_a_database_of_a_newer_release_is_refused_and_left_alone(database_url: str):
    await asyncio.to_thread(
        execute, database_url, "UPDATE alembic_version SET version_num = '9999'"
    )
    with pytest.raises(Unavailable, match="newer release"):
        await pending(database_url)
    with pytest.raises(Unavailable, match="newer release"):
        await migrate(database_url)
    left = await asyncio.to_thread(execute, database_url, "SELECT * FROM alembic_version")
    assert left == [("9999",)]
