"""Messages and tool results: one order, stored once, the owner's alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core.errors import BadRequest, NotFound
from core.ids import new_id
from core.records import MessageRecord, SessionRecord, ToolResultRecord
from core.types import MessageStatus
from tests.storage.conftest import AT, World
from tests.storage.test_sessions import said


async def add(world: World, message: MessageRecord) -> MessageRecord:
    async with world.database.work() as work:
        return await work.messages.add(world.ann, message)


def result(message: MessageRecord, call: str = "c1", **fields) -> ToolResultRecord:
    given = {"tool": "t", "status": "completed", "content": "whole", "error": None} | fields
    return ToolResultRecord(
        session_id=message.session_id,
        run_id="r",
        message_id=message.id,
        tool_call_id=call,
        duration_ms=1,
        created_at=AT,
        **given,
    )


@pytest.mark.req("CHAT-11", "P5")
async def test_messages_added_at_once_get_different_places(world: World):
    session = await world.session()
    stored = await asyncio.gather(*(add(world, said(session, str(n))) for n in range(8)))
    assert len({message.position for message in stored}) == 8


@pytest.mark.req("CHAT-11")
async def test_history_is_paged_backwards_without_gap_or_repeat(world: World):
    session = await world.session()
    for n in range(7):
        await add(world, said(session, str(n)))
    seen: list[str] = []
    cursor = None
    async with world.database.work() as work:
        while True:
            items, cursor = await work.messages.page(world.ann, session.id, cursor, 3)
            seen = [message.parts[0]["text"] for message in items] + seen
            if cursor is None:
                break
        assert seen == [str(n) for n in range(7)]
        with pytest.raises(BadRequest):
            await work.messages.page(world.ann, session.id, "tampered", 3)


@pytest.mark.req("CHAT-28", "P2")
async def test_the_same_message_twice_is_stored_once_with_the_later_parts(world: World):
    session = await world.session()
    first = await add(world, said(session, "half", status=MessageStatus.INCOMPLETE))
    await add(world, said(session, "next"))
    whole = replace(first, parts=[{"type": "text", "text": "whole"}], status=MessageStatus.COMPLETE)
    assert await add(world, whole) == whole
    async with world.database.work() as work:
        items, _ = await work.messages.page(world.ann, session.id)
        assert [message.parts[0]["text"] for message in items] == ["whole", "next"]
        assert await work.sessions.search(world.ann, "half") == ([], None)


@pytest.mark.req("IDENT-05", "P14")
async def test_foreign_messages_are_not_found_and_cannot_be_overwritten(world: World):
    session = await world.session()
    mine = await add(world, said(session, "mine"))
    bobs = await world.session(world.bob)
    async with world.database.work() as work:
        await work.tool_results.add(world.ann, result(mine))
    async with world.database.work() as work:
        for call in (
            work.messages.get(world.bob, mine.id),
            work.messages.page(world.bob, session.id),
            work.messages.set_feedback(world.bob, mine.id, "up", None),
            work.messages.add(world.bob, said(session, "intruder")),
            work.messages.add(world.bob, replace(mine, session_id=bobs.id)),
            work.tool_results.get(world.bob, mine.id, "c1"),
        ):
            with pytest.raises(NotFound):
                await call
    async with world.database.work() as work:
        assert await work.messages.get(world.ann, mine.id) == mine


@pytest.mark.req("CHAT-26")
async def test_feedback_is_kept_and_taken_back(world: World):
    message = await add(world, said(await world.session(), "x"))
    async with world.database.work() as work:
        await work.messages.set_feedback(world.ann, message.id, "up", "good")
        assert (await work.messages.get(world.ann, message.id)).feedback_note == "good"
        await work.messages.set_feedback(world.ann, message.id, None, None)
        assert await work.messages.get(world.ann, message.id) == message


@pytest.mark.req("CHAT-26", "P2")
async def test_a_tool_result_is_kept_whole_and_never_replaced(world: World):
    message = await add(world, said(await world.session(), "x"))
    kept = result(message, content="x" * 300_000, meta={"sources": [1]})
    async with world.database.work() as work:
        await work.tool_results.add(world.ann, kept)
        await work.tool_results.add(world.ann, result(message, content="again"))
        await work.tool_results.add(world.ann, result(message, "c2"))
        assert await work.tool_results.get(world.ann, message.id, "c1") == kept
        found = await work.tool_results.of_session(message.session_id, [message.id])
        assert [one.tool_call_id for one in found] == ["c1", "c2"]
        assert await work.tool_results.of_session(message.session_id, [new_id()]) == []


@pytest.mark.req("CHAT-21")
async def test_a_deleted_message_takes_its_results_along(world: World):
    session: SessionRecord = await world.session()
    gone, stays = await add(world, said(session, "a")), await add(world, said(session, "b"))
    async with world.database.work() as work:
        await work.tool_results.add(world.ann, result(gone))
        await work.messages.delete([gone.id])
        assert [m.id for m in await work.messages.after(session.id, -1)] == [stays.id]
        assert await work.tool_results.of_session(session.id) == []


@pytest.mark.req("L25")
async def test_text_that_cannot_be_stored_is_replaced_not_refused(world: World):
    message = await add(world, said(await world.session(title="\x00t\ud83d"), "a\x00b\udfff"))
    assert message.parts == [{"type": "text", "text": "a\ufffdb\ufffd"}]
    async with world.database.work() as work:
        await work.tool_results.add(world.ann, result(message, content="\x00"))
        kept = await work.tool_results.get(world.ann, message.id, "c1")
        assert kept.content == "\ufffd"
        session = await work.sessions.get(world.ann, message.session_id)
        assert session.title == "\ufffdt\ufffd"
