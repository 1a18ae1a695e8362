"""The graph on a real PostgreSQL: what survives, in which order, and at what cost."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from core.tooling import define_tool
from storage.database import Database
from tests.support.scripted_turns import call, calls, say


@define_tool(requires_approval=True)
async def guarded(number: int) -> int:
    """Return the number."""
    return number


@pytest.mark.req("EXEC-02", "EXEC-20")
async def test_an_approval_is_answered_through_another_checkpointer(
    talk_with, scripted, database: Database
):
    scripted.on("go", calls([("guarded", {"number": n}, f"k{n}") for n in range(12)]), say("done"))
    talk = talk_with(tools=[guarded], saver=database.checkpointer())
    await talk.say("go")
    talk.saver = database.checkpointer()
    decisions = [{"tool_call_id": f"k{n}", "type": "approve"} for n in reversed(range(12))]
    assert await talk.answer(decisions=decisions) == "done"
    talk.saver = database.checkpointer()
    assert list(await talk.results()) == [f"k{n}" for n in range(12)]
    assert (await talk.messages())[-1].text == "done"
    assert scripted.refused == []


@pytest.mark.req("EXEC-03")
async def test_after_a_stop_in_the_middle_only_the_unfinished_call_runs_again(
    talk_with, scripted, database: Database
):
    ran: list[int] = []
    stuck, free = asyncio.Event(), asyncio.Event()

    @define_tool()
    async def work(number: int) -> int:
        """Work."""
        ran.append(number)
        if number == 2 and not free.is_set():
            stuck.set()
            await asyncio.Event().wait()
        return number

    scripted.on("go", calls([("work", {"number": n}, f"k{n}") for n in (1, 2, 3)]), say("done"))
    talk = talk_with(tools=[work], saver=database.checkpointer())
    run = asyncio.create_task(talk.say("go"))
    await asyncio.wait_for(stuck.wait(), 10)
    while sum("run_tool" in update for update in talk.updates) < 2:
        await asyncio.wait({run}, timeout=0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    free.set()
    talk.saver, talk.attempt = database.checkpointer(), 2
    assert await talk.drive(None) == "done"
    assert sorted(ran) == [1, 2, 2, 3]
    assert list(await talk.results()) == ["k1", "k2", "k3"]
    assert len(scripted.requests) == 2


@pytest.mark.req("EXEC-02")
async def test_checkpoints_grow_with_what_is_new_not_with_the_whole_history(
    talk_with, scripted, database: Database
):
    scripted.default = say("word " * 400)
    talk = talk_with(saver=database.checkpointer())
    sizes = [await _bytes(database)]
    for _ in range(3):
        for _ in range(8):
            await talk.say("grow")
        sizes.append(await _bytes(database))
    first, _, last = (after - before for before, after in itertools.pairwise(sizes))
    assert last < first * 1.5


@pytest.mark.req("EXEC-40")
async def test_no_text_of_a_conversation_lies_in_clear_json(
    talk_with, scripted, database: Database
):
    scripted.on("canary", call("calculate", {"expression": "1"}), say("canary-answer"))
    talk = talk_with(saver=database.checkpointer())
    await talk.say("canary-question")
    async with database.pool.connection() as connection:
        cursor = await connection.execute("SELECT checkpoint, metadata FROM checkpoints")
        rows = await cursor.fetchall()
    assert rows
    assert "canary" not in json.dumps(rows, default=str)


async def _bytes(database: Database) -> int:
    query = """
        SELECT (SELECT coalesce(sum(length(blob)), 0) FROM checkpoint_blobs)
             + (SELECT coalesce(sum(length(blob)), 0) FROM checkpoint_writes) AS size
    """
    async with database.pool.connection() as connection:
        row = await (await connection.execute(query)).fetchone()
    return int(row["size"])
