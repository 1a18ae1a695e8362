"""Runs: one active per session, claimed fairly, ended only by who holds them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from core.errors import DuplicateRequest, NotFound, SessionBusy
from core.records import OwnerRecord
from core.types import ACTIVE, RunStatus
from tests.storage.conftest import AT, World


@pytest.mark.req("EXEC-30", "D01")
@pytest.mark.parametrize("status", ACTIVE)
async def test_an_active_run_keeps_every_other_out_of_its_session(world: World, status):
    session = await world.session()
    first = await world.run(session, status=status)
    with pytest.raises(SessionBusy):
        await world.run(session)
    async with world.database.work() as work:
        assert await work.runs.active(session.id) == first
        await work.runs.set_status(first.id, RunStatus.SUCCESS, finished_at=AT)
        assert await work.runs.active(session.id) is None
    second = await world.run(session)
    with pytest.raises(SessionBusy):
        async with world.database.work() as work:
            await work.runs.set_status(first.id, RunStatus.QUEUED)
    async with world.database.work() as work:
        assert [run.id for run in await work.runs.list(world.ann, session.id)] == [
            second.id,
            first.id,
        ]


@pytest.mark.req("EXEC-30", "D01", "P5")
async def test_of_many_runs_at_once_one_is_admitted(world: World):
    session = await world.session()
    results = await asyncio.gather(*(world.run(session) for _ in range(8)), return_exceptions=True)
    busy = [result for result in results if isinstance(result, SessionBusy)]
    assert len(busy) == 7


@pytest.mark.req("IDENT-05", "P14")
async def test_a_foreign_run_is_not_found(world: World):
    session = await world.session()
    run = await world.run(session)
    async with world.database.work() as work:
        assert await work.runs.get(world.ann, run.id) == run
        assert run.user_name == "ann"
        with pytest.raises(NotFound):
            await work.runs.get(world.bob, run.id)
        assert await work.runs.list(world.bob, session.id) == []


async def claim(world: World, owner="w", limit=10, served=()):
    async with world.database.work() as work:
        return await work.runs.claim(owner, AT, limit, served)


@pytest.mark.req("EXEC-32", "CHAT-12")
async def test_claims_are_fair_between_users_and_oldest_first(world: World):
    whose = ["ann", "ann", "ann", "bob", "bob"]
    made = []
    for n, name in enumerate(whose):
        session = await world.session(getattr(world, name))
        made.append(await world.run(session, at=AT + timedelta(seconds=n)))
    claimed = [await claim(world) for _ in range(6)]
    assert [run and made.index(next(m for m in made if m.id == run.id)) for run in claimed] == [
        0,
        3,
        1,
        4,
        2,
        None,
    ]
    first = claimed[0]
    assert (first.status, first.owner_id, first.attempt) == (RunStatus.RUNNING, "w", 1)
    assert first.started_at == AT


@pytest.mark.req("EXEC-32", "CHAT-12")
async def test_with_one_seat_users_take_turns_however_many_runs_one_of_them_queued(world: World):
    whose = ["ann", "ann", "ann", "bob", "bob"]
    for n, name in enumerate(whose):
        session = await world.session(getattr(world, name))
        await world.run(session, at=AT + timedelta(seconds=n))
    served: dict[str, None] = {}
    order = []
    while run := await claim(world, served=tuple(served)):
        order.append(run.user_name)
        served.pop(run.user_id, None)
        served[run.user_id] = None
        async with world.database.work() as work:
            await work.runs.set_status(run.id, RunStatus.SUCCESS, finished_at=AT)
    assert order == ["ann", "bob", "ann", "bob", "ann"]


@pytest.mark.req("EXEC-31")
async def test_a_user_has_no_more_running_than_the_limit_even_under_concurrent_claims(
    world: World,
):
    for _ in range(6):
        await world.run(await world.session())
    claimed = await asyncio.gather(*(claim(world, f"w{n}", 2) for n in range(6)))
    taken = [run for run in claimed if run is not None]
    assert len(taken) == len({run.id for run in taken}) == 2
    async with world.database.work() as work:
        assert await work.runs.counts(world.ann.user_id) == (4, 4)
        assert await work.runs.counts(world.bob.user_id) == (0, 4)


@pytest.mark.req("EXEC-32", "P2")
async def test_concurrent_claims_never_take_the_same_run(world: World):
    for _ in range(6):
        await world.run(await world.session())
    claimed = await asyncio.gather(*(claim(world, f"w{n}") for n in range(8)))
    taken = Counter(run.id for run in claimed if run is not None)
    assert len(taken) == 6
    assert set(taken.values()) == {1}


@pytest.mark.req("EXEC-33")
async def test_runs_of_dead_owners_are_found_and_those_of_living_ones_are_not(world: World):
    runs = [await world.run(await world.session()) for _ in range(3)]
    async with world.database.work() as work:
        for name, beat in (("dead", AT), ("alive", AT + timedelta(seconds=60))):
            await work.owners.register(OwnerRecord(name, "worker", "host", 1, AT, beat))
    for owner in ("dead", "alive", "gone"):
        await claim(world, owner)
    before = AT + timedelta(seconds=30)
    async with world.database.work() as work:
        found = await work.runs.of_dead_owners(before)
        assert {run.owner_id for run in found} == {"dead", "gone"}
        for run in found:
            await work.runs.requeue(run.id)
    async with world.database.work() as work:
        assert await work.runs.of_dead_owners(before) == []
        back = [await work.runs.by_id(run.id) for run in runs]
    assert sorted((run.status, run.owner_id, run.takeovers) for run in back) == [
        (RunStatus.QUEUED, None, 1),
        (RunStatus.QUEUED, None, 1),
        (RunStatus.RUNNING, "alive", 0),
    ]
    again = await claim(world, "new")
    assert (again.attempt, again.takeovers) == (2, 1)


@pytest.mark.req("EXEC-30", "P4")
async def test_only_the_holder_can_end_a_run(world: World):
    await world.run(await world.session())
    held = await claim(world, "holder")
    async with world.database.work() as work:
        await work.runs.requeue(held.id)
    now = await claim(world, "thief")
    async with world.database.work() as work:
        assert not await work.runs.finish(held, RunStatus.SUCCESS, AT)
        assert await work.runs.finish(now, RunStatus.FAILED, AT, error_code="x")
        assert not await work.runs.finish(now, RunStatus.SUCCESS, AT)
        ended = await work.runs.by_id(held.id)
    assert (ended.status, ended.error_code, ended.owner_id) == (RunStatus.FAILED, "x", None)


@pytest.mark.req("CHAT-08")
async def test_a_cancel_is_noted_only_on_active_runs(world: World):
    run = await world.run(await world.session())
    async with world.database.work() as work:
        await work.runs.request_cancel(run.id)
        assert (await work.runs.by_id(run.id)).cancel_requested
        await work.runs.set_status(run.id, RunStatus.CANCELLED, cancel_requested=False)
        await work.runs.request_cancel(run.id)
        assert not (await work.runs.by_id(run.id)).cancel_requested


@pytest.mark.req("CHAT-04")
async def test_a_request_key_names_its_first_run_for_ever_and_for_its_user_alone(world: World):
    session = await world.session()
    async with world.database.work() as work:
        await work.request_keys.use(world.ann, "key", session.id, "run1")
        await work.request_keys.use(world.bob, "key", "other", "run2")
    async with world.database.work() as work:
        await work.sessions.delete(world.ann, session.id)
    with pytest.raises(DuplicateRequest) as caught:
        async with world.database.work() as work:
            await work.request_keys.use(world.ann, "key", "s", "run3")
    assert caught.value.details == {"session_id": session.id, "run_id": "run1"}


@pytest.mark.req("CHAT-04")
async def test_of_two_requests_with_one_key_at_once_one_is_a_duplicate(world: World):
    async def use(n: int) -> None:
        async with world.database.work() as work:
            await work.request_keys.use(world.ann, "key", "s", f"run{n}")

    results = await asyncio.gather(*(use(n) for n in range(4)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, DuplicateRequest)]
    won = next(f"run{n}" for n, result in enumerate(results) if result is None)
    assert len(refused) == 3
    assert {error.details["run_id"] for error in refused} == {won}


@pytest.mark.req("EXEC-33")
async def test_an_owner_beats_until_it_leaves(world: World):
    async with world.database.work() as work:
        await work.owners.register(OwnerRecord("o", "worker", "host", 1, AT, AT))
        assert await work.owners.beat("o", AT + timedelta(seconds=5))
        assert [owner.id for owner in await work.owners.alive(AT)] == ["o"]
        assert await work.owners.alive(AT + timedelta(seconds=5)) == []
        await work.owners.leave("o")
        assert not await work.owners.beat("o", AT)
