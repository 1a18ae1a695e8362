"""The journal: gapless numbers, one writer, everything readable in one look."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import NotFound, RunLost
from core.events import Token, ToolCall, dump
from core.types import RunStatus
from tests.storage.conftest import AT, World


def token(text: str) -> Token:
    return Token(content=text, message_id="m")


async def append(world: World, run, events, owner=None, attempt=None):
    async with world.database.work() as work:
        return await work.events.append(
            run, events, AT, owner, run.attempt if attempt is None else attempt
        )


@pytest.mark.req("EXEC-37", "P7")
async def test_concurrent_appends_give_one_gapless_row_of_numbers(world: World):
    run = await world.run(await world.session())
    batches = [[token(f"{n}-{k}") for k in range(n % 4)] for n in range(24)]
    stored = await asyncio.gather(*(append(world, run, batch) for batch in batches))
    async with world.database.work() as work:
        events, status, last_seq = await work.events.after(run.id, 0, 1000)
    assert [event.seq for event in events] == list(range(1, last_seq + 1))
    assert last_seq == sum(map(len, batches))
    assert status is RunStatus.QUEUED
    assert sorted((e.seq, e.data["content"]) for part in stored for e in part) == [
        (e.seq, e.data["content"]) for e in events
    ]


@pytest.mark.req("EXEC-37", "P4")
@pytest.mark.parametrize(("owner", "attempt"), [("other", 1), ("worker", 2), (None, 1)])
async def test_who_does_not_hold_the_run_writes_nothing(world: World, owner, attempt):
    run = await world.run(
        await world.session(), status=RunStatus.RUNNING, owner_id="worker", attempt=1
    )
    with pytest.raises(RunLost):
        await append(world, run, [token("x")], owner, attempt)
    with pytest.raises(RunLost):
        await append(world, run, [], owner, attempt)
    await append(world, run, [token("mine")], "worker", 1)
    async with world.database.work() as work:
        events, _, last_seq = await work.events.after(run.id, 0, 10)
    assert [event.data["content"] for event in events] == ["mine"]
    assert last_seq == 1


@pytest.mark.req("EXEC-37")
async def test_a_lost_run_does_not_spoil_the_others_of_a_flush(world: World):
    lost = await world.run(await world.session(), status=RunStatus.RUNNING, owner_id="a", attempt=1)
    kept = await world.run(await world.session(), status=RunStatus.RUNNING, owner_id="b", attempt=1)
    async with world.database.work() as work:
        with pytest.raises(RunLost):
            await work.events.append(lost, [token("x")], AT, "b", 1)
        await work.events.append(kept, [token("y")], AT, "b", 1)
    async with world.database.work() as work:
        assert (await work.events.after(lost.id, 0, 10))[2] == 0
        assert (await work.events.after(kept.id, 0, 10))[2] == 1


@pytest.mark.req("CHAT-07")
async def test_reading_starts_behind_a_number_and_stops_at_the_limit(world: World):
    run = await world.run(await world.session())
    stored = await append(world, run, [token(str(n)) for n in range(5)])
    async with world.database.work() as work:
        events, _, last_seq = await work.events.after(run.id, 1, 2)
        assert events == stored[1:3]
        assert last_seq == 5
        assert (await work.events.after(run.id, 5, 2))[0] == []
        assert (await work.events.after(run.id, 99, 2))[0] == []
        with pytest.raises(NotFound):
            await work.events.after("nothing", 0, 2)


@pytest.mark.req("L25", "CHAT-28")
async def test_what_cannot_be_stored_is_replaced_in_what_is_shown_too(world: World):
    run = await world.run(await world.session())
    call = ToolCall(
        tool="t",
        cn_tool="t",
        args={"a\x00": "x\ud800y", "n": 2**70, "f": float("nan"), "s": "\\u0000"},
        agent_id="a",
        tool_call_id="c",
    )
    deep: dict = {}
    for _ in range(2000):
        deep = {"d": deep}
    nested = call.model_copy(update={"args": {"deep": deep}})
    for event in (call, nested):
        with_numbers = await append(world, run, [token("a\x00b"), event, token("\udc00")])
        async with world.database.work() as work:
            read, _, _ = await work.events.after(run.id, with_numbers[0].seq - 1, 10)
        assert read == with_numbers
    assert with_numbers[0].data["content"] == "a\ufffdb"
    assert with_numbers[2].data["content"] == "\ufffd"


@pytest.mark.req("EXEC-37")
async def test_numbers_of_a_rolled_back_flush_are_given_again(world: World):
    run = await world.run(await world.session())

    async def fail_after_append() -> None:
        async with world.database.work() as work:
            await work.events.append(run, [token("lost")], AT, None, 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_after_append()
    stored = await append(world, run, [token("kept")])
    assert [(event.seq, event.data) for event in stored] == [(1, dump(token("kept")))]
