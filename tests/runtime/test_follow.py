"""Watchers see the same list from wherever they join: nothing lost, nothing doubled, ever."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from core.errors import NotFound
from core.events import StoredEvent
from core.ids import new_id
from runtime.hub import QUEUE_LIMIT, Hub
from tests.runtime.conftest import Bench, Ground
from tests.support.scripted_turns import Gate, hold, say


async def collect(ground: Ground, run_id: str, after: int = 0) -> list[StoredEvent]:
    async with asyncio.timeout(30):
        return [event async for event in ground.runs.follow(ground.ann, run_id, after)]


@pytest.mark.req("CHAT-07", "S07", "P7")
async def test_watchers_of_two_processes_and_any_join_point_see_one_list(bench: Bench):
    worker, other = await bench.open(), await bench.open(works=False)
    bench.scripted.default = say("word " * 120, size=5, pause=0.002)
    runs = [await other.submit(f"m{number}") for number in range(4)]
    watchers = [
        asyncio.create_task(collect(ground, run.run_id, after))
        for run in runs
        for ground in (worker, other)
        for after in (0, 1)
    ]
    seen = await asyncio.gather(*watchers)
    for index, run in enumerate(runs):
        whole = await collect(worker, run.run_id)
        assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
        assert whole[-1].type == "done"
        mine = seen[index * 4 : index * 4 + 4]
        frames = [event.frame() for event in whole]
        for after, events in zip((0, 1, 0, 1), mine, strict=True):
            assert [event.frame() for event in events] == frames[after:]


@pytest.mark.req("CHAT-07", "S01")
async def test_a_finished_run_is_replayed_from_any_number_and_ends(ground: Ground):
    submitted, events = await ground.chat("hi")
    for after in (0, 1, len(events) - 1):
        assert await collect(ground, submitted.run_id, after) == events[after:]
    assert await collect(ground, submitted.run_id, len(events)) == []
    # A number the run never reached is a mistake: everything is replayed, never nothing.
    assert await collect(ground, submitted.run_id, 10_000) == events
    assert await collect(ground, submitted.run_id, -5) == events


@pytest.mark.req("CHAT-07", "P14")
async def test_the_runs_of_others_are_not_found(ground: Ground):
    submitted, _ = await ground.chat("hi")
    bob = await ground.user("bob")
    for run_id, who in ((submitted.run_id, bob), (new_id(), ground.ann)):
        with pytest.raises(NotFound):
            await anext(aiter(ground.runs.follow(who, run_id)))


@pytest.mark.req("EXEC-37")
async def test_what_a_watcher_has_seen_is_stored_and_the_first_piece_comes_at_once(bench: Bench):
    ground = await bench.open()
    gate = Gate()
    bench.scripted.play(hold(say("first and the rest", size=5), gate, after=2))
    submitted = await ground.submit("hi")
    async with asyncio.timeout(10):
        async for event in ground.runs.follow(ground.ann, submitted.run_id):
            async with ground.database.work() as work:
                stored, _, _ = await work.events.after(submitted.run_id, event.seq - 1, 1)
            assert stored[0].data == event.data
            if event.type == "token":
                assert event.data["content"].startswith("first")
                break
    gate.open()
    assert (await ground.read(submitted))[-1].type == "done"


@pytest.mark.req("CHAT-07", "EXEC-37")
async def test_a_watcher_that_leaves_or_is_slow_costs_no_memory():
    hub = Hub()
    slow = hub.subscribe("run")
    for seq in range(1, QUEUE_LIMIT * 3):
        hub.publish("run", [_event(seq)])
    assert len(slow._events) <= QUEUE_LIMIT
    assert await slow.next(1) is None
    hub.unsubscribe("run", slow)
    assert hub.watchers == 0
    hub.publish("run", [_event(1)])
    hub.heard("run", 9)


@pytest.mark.req("CHAT-07")
async def test_news_of_other_processes_send_a_watcher_to_the_database_once():
    hub = Hub()
    watcher = hub.subscribe("run")
    hub.publish("run", [_event(1)])
    hub.heard("run", 1)
    assert [event.seq for event in await watcher.next(1) or []] == [1]
    hub.heard("run", 2)
    assert await watcher.next(1) is None
    assert await watcher.next(0.01) is None


def _event(seq: int) -> StoredEvent:
    return StoredEvent(
        session_id="s",
        run_id="run",
        seq=seq,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        trace_id=None,
        data={"type": "token", "content": "x", "message_id": "m"},
    )
