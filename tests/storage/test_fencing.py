"""Checkpoints are written under a run's claim, and by nobody else (EXEC-34, P4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from core.errors import RunLost
from core.records import RunRecord
from storage.database import Database
from tests.storage.conftest import AT, World
from tests.storage.test_checkpointer import BUILDER


async def running(world: World) -> RunRecord:
    """A run that a worker has claimed."""
    session = await world.session()
    await world.run(session)
    async with world.database.work() as work:
        run = await work.runs.claim("worker-1", AT, 10)
    assert run is not None
    return run


def driven(database: Database, claim: RunRecord) -> tuple[Any, Any]:
    """A graph on the run's thread, whose checkpoints stand under its claim."""
    graph = BUILDER.compile(checkpointer=database.checkpointer(claim))
    return graph, {"configurable": {"thread_id": claim.session_id}}


async def rows_of(database: Database, session_id: str) -> dict[str, int]:
    """Count what is stored of a thread, by table."""
    counts: dict[str, int] = {}
    async with database.work() as work:
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            query: Any = f"SELECT count(*) FROM {table} WHERE thread_id = %s"
            row = await (await work.connection.execute(query, (session_id,))).fetchone()
            counts[table] = row[0] if row else 0
    return counts


async def taken_over(world: World, run: RunRecord) -> None:
    async with world.database.work() as work:
        await work.runs.lock(run.id)
        await work.runs.set_status(run.id, run.status, owner_id="worker-2", attempt=run.attempt + 1)


async def claimed_again_by_the_same(world: World, run: RunRecord) -> None:
    async with world.database.work() as work:
        await work.runs.lock(run.id)
        await work.runs.set_status(run.id, run.status, attempt=run.attempt + 1)


async def queued_again(world: World, run: RunRecord) -> None:
    async with world.database.work() as work:
        await work.runs.requeue(run.id)


async def deleted(world: World, run: RunRecord) -> None:
    async with world.database.work() as work:
        await work.connection.execute("DELETE FROM runs WHERE id = %s", (run.id,))


@pytest.mark.req("EXEC-34", "EXEC-33")
async def test_the_owner_of_a_run_writes_its_checkpoints(world: World):
    run = await running(world)
    graph, config = driven(world.database, run)
    await graph.ainvoke({"messages": [HumanMessage("h", id="h1")]}, config)
    assert (await graph.aget_state(config)).next == ("approve",)
    assert (await rows_of(world.database, run.session_id))["checkpoints"] == 3


@pytest.mark.req("EXEC-34", "P4")
@pytest.mark.parametrize("lose", [taken_over, claimed_again_by_the_same, queued_again, deleted])
async def test_who_has_lost_a_run_writes_no_checkpoint_of_it(
    world: World, lose: Callable[[World, RunRecord], Awaitable[None]]
):
    run = await running(world)
    graph, config = driven(world.database, run)
    await graph.ainvoke({"messages": [HumanMessage("h", id="h1")]}, config)
    before = await rows_of(world.database, run.session_id)
    await lose(world, run)
    late = {"messages": [HumanMessage("late", id="h2")]}
    with pytest.raises(RunLost):
        await graph.ainvoke(late, config, durability="sync")
    with pytest.raises(RunLost):
        await graph.aupdate_state(config, late, as_node="finish")
    saver = graph.checkpointer
    where = {"configurable": config["configurable"] | {"checkpoint_ns": "", "checkpoint_id": "1"}}
    with pytest.raises(RunLost):
        await saver.aput_writes(where, [("messages", ["late"])], "task")
    with pytest.raises(RunLost):
        await saver.adelete_thread(run.session_id)
    assert await rows_of(world.database, run.session_id) == before
    # The connections are whole: what may be read is read.
    assert (await graph.aget_state(config)).next == ("approve",)


@pytest.mark.req("EXEC-34", "P4")
async def test_a_takeover_waits_for_a_write_that_was_let_in(world: World):
    run = await running(world)
    saver = world.database.checkpointer(run)
    async with saver._cursor(pipeline=True) as cursor:
        await cursor.execute("SELECT 1")
        await cursor.fetchone()  # sends the check; the transaction is still open
        async with world.database.work() as work:
            assert await work.runs.of_dead_owners(AT) == []
    async with world.database.work() as work:
        assert [one.id for one in await work.runs.of_dead_owners(AT)] == [run.id]
