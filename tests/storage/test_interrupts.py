"""Questions to people: answered once, by the right token, in the right session."""

from __future__ import annotations

import asyncio

import pytest

from core.errors import NoPendingInterrupt, NotFound, StaleInterrupt
from core.ids import new_id
from core.records import InterruptRecord, SessionRecord
from core.types import InterruptKind, InterruptStatus
from tests.storage.conftest import AT, World


def question(session: SessionRecord, token: str = "token", run_id: str = "r") -> InterruptRecord:
    return InterruptRecord(
        id=new_id(),
        workspace_id=session.workspace_id,
        user_id=session.user_id,
        session_id=session.id,
        run_id=run_id,
        token=token,
        kind=InterruptKind.ASK_USER,
        card={"type": "interrupt"},
        graph_interrupt_id="g",
        checkpoint_id="c",
        status=InterruptStatus.PENDING,
        decisions=None,
        resolved_by=None,
        created_at=AT,
        resolved_at=None,
    )


async def ask(world: World, asked: InterruptRecord) -> None:
    async with world.database.work() as work:
        await work.interrupts.add(asked)


async def answer(world: World, session: SessionRecord, token: str, who=None) -> None:
    async with world.database.work() as work:
        taken = await work.interrupts.take(who or world.ann, session.id, token)
        await work.interrupts.resolve(taken.id, [{"type": "approve"}], "ann", AT)


@pytest.mark.req("EXEC-21", "H01", "P6")
async def test_of_simultaneous_answers_one_wins_and_the_others_are_stale(world: World):
    session = await world.session()
    await ask(world, question(session))
    results = await asyncio.gather(
        *(answer(world, session, "token") for _ in range(5)), return_exceptions=True
    )
    assert results.count(None) == 1
    assert sum(isinstance(result, StaleInterrupt) for result in results) == 4


@pytest.mark.req("EXEC-21", "H02", "P6")
async def test_a_spent_token_does_not_answer_the_next_question(world: World):
    session = await world.session()
    await ask(world, question(session, "old"))
    await answer(world, session, "old")
    with pytest.raises(StaleInterrupt):
        await answer(world, session, "old")
    await ask(world, question(session, "new"))
    for wrong in ("old", "guess", ""):
        with pytest.raises(StaleInterrupt):
            await answer(world, session, wrong)
    async with world.database.work() as work:
        assert (await work.interrupts.pending(world.ann, session.id)).token == "new"
    await answer(world, session, "new")


@pytest.mark.req("EXEC-21", "CHAT-09")
async def test_nothing_pending_foreign_token_and_foreign_session_are_told_apart(world: World):
    session, other = await world.session(), await world.session()
    await ask(world, question(other, "others"))
    with pytest.raises(NoPendingInterrupt):
        await answer(world, session, "others")
    with pytest.raises(NotFound):
        await answer(world, other, "others", world.bob)
    async with world.database.work() as work:
        assert await work.interrupts.pending(world.bob, other.id) is None
        assert (await work.interrupts.pending(world.ann, other.id)).token == "others"


@pytest.mark.req("EXEC-22", "H07")
async def test_a_withdrawn_question_cannot_be_answered(world: World):
    session = await world.session()
    asked = question(session)
    await ask(world, asked)
    async with world.database.work() as work:
        assert [one.id for one in await work.interrupts.withdraw("r", AT)] == [asked.id]
        assert await work.interrupts.withdraw("r", AT) == []
    with pytest.raises(StaleInterrupt):
        await answer(world, session, "token")
    async with world.database.work() as work:
        with pytest.raises(StaleInterrupt):
            await work.interrupts.resolve(asked.id, [], "ann", AT)


@pytest.mark.req("EXEC-21")
async def test_a_repeated_question_is_stored_once(world: World):
    session = await world.session()
    asked = question(session)
    await ask(world, asked)
    await ask(world, asked)
    async with world.database.work() as work:
        assert await work.interrupts.pending(world.ann, session.id) == asked
