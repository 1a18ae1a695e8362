"""The door to PostgreSQL: named failures, recovery, transactions that are whole or nothing."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import Unavailable
from storage.database import Database
from tests.storage.conftest import World
from tests.support.postgres import execute, some_keys, with_database


async def cut(database: Database) -> None:
    """End all connections of the database from outside."""
    name = database.url.partition("@/")[2].partition("?")[0]
    await asyncio.to_thread(
        execute,
        with_database(database.url, "postgres"),
        "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = %s",
        (name,),
    )


@pytest.mark.req("EXEC-39", "OPS-05")
async def test_a_database_that_is_not_there_is_named_without_its_password(database_url: str):
    missing = with_database(database_url, "missing")
    with pytest.raises(Unavailable) as caught:
        await Database.open(missing, pool_size=2, keys=some_keys())
    password = database_url.partition("graphwright:")[2].partition("@")[0]
    assert password
    assert password not in str(caught.value)


@pytest.mark.req("EXEC-39", "D02")
async def test_cut_connections_are_replaced_between_transactions(world: World):
    session = await world.session()
    await cut(world.database)
    async with world.database.work() as work:
        assert (await work.sessions.get(world.ann, session.id)).id == session.id
    assert (
        await world.database.checkpointer().aget_tuple({"configurable": {"thread_id": session.id}})
        is None
    )


@pytest.mark.req("EXEC-39", "D02")
async def test_a_connection_cut_inside_a_transaction_is_unavailable_and_keeps_nothing(
    world: World,
):
    session = await world.session()

    async def rename() -> None:
        async with world.database.work() as work:
            await work.sessions.update(session.id, title="changed")
            await cut(world.database)
            await work.sessions.get(world.ann, session.id)

    with pytest.raises(Unavailable):
        await rename()
    async with world.database.work() as work:
        assert (await work.sessions.get(world.ann, session.id)).title == "A talk"


@pytest.mark.req("EXEC-31")
async def test_an_exception_rolls_everything_back_and_comes_out_unchanged(world: World):
    session = await world.session()

    async def fail() -> None:
        async with world.database.work() as work:
            await work.sessions.update(session.id, title="changed")
            await work.connection.execute("UPDATE sessions SET agent = 'changed'")
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await fail()
    async with world.database.work() as work:
        assert await work.sessions.get(world.ann, session.id) == session


@pytest.mark.req("EXEC-39")
async def test_a_cancelled_transaction_gives_its_connection_back(database_url: str):
    database = await Database.open(database_url, pool_size=2, keys=some_keys())

    async def hang() -> None:
        async with database.work() as work:
            await work.connection.execute("SELECT pg_sleep(30)")

    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hang(), 0.1)
        assert await asyncio.wait_for(database.ping(), 10) > 0
    finally:
        await database.close()
