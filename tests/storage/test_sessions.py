"""Sessions: scoped, listed, searched, deleted whole."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.errors import BadRequest, NotFound
from core.ids import new_id
from core.records import MessageRecord, SessionRecord
from core.types import MessageStatus
from tests.storage.conftest import AT, World


def said(session: SessionRecord, text: str, **fields) -> MessageRecord:
    given = {"run_id": None, "role": "user", "status": MessageStatus.COMPLETE} | fields
    parts = [{"type": "text", "text": text}]
    return MessageRecord(
        id=new_id(), session_id=session.id, position=0, parts=parts, created_at=AT, **given
    )


async def titles(world: World, **options) -> list[str]:
    async with world.database.work() as work:
        items, _ = await work.sessions.list(world.ann, **options)
    return [session.title for session in items]


@pytest.mark.req("IDENT-05", "P14")
async def test_a_foreign_session_is_not_found(world: World):
    session = await world.session()
    async with world.database.work() as work:
        assert await work.sessions.get(world.ann, session.id) == session
        for read in (work.sessions.get, work.sessions.lock, work.sessions.delete):
            with pytest.raises(NotFound):
                await read(world.bob, session.id)
        assert await work.sessions.list(world.bob) == ([], None)
        assert await work.sessions.search(world.bob, "talk") == ([], None)
    async with world.database.work() as work:
        assert await work.sessions.get(world.ann, session.id) == session


@pytest.mark.req("CHAT-20")
async def test_pinned_sessions_come_first_then_the_newest_over_all_pages(world: World):
    made = [await world.session(title=f"s{n}", at=AT + timedelta(minutes=n // 2)) for n in range(7)]
    async with world.database.work() as work:
        await work.sessions.update(made[1].id, pinned_at=AT)
        await work.sessions.update(made[2].id, pinned_at=AT + timedelta(hours=1))
    seen: list[str] = []
    cursor = None
    async with world.database.work() as work:
        while True:
            items, cursor = await work.sessions.list(world.ann, cursor=cursor, limit=2)
            seen += [session.title for session in items]
            if cursor is None:
                break
    assert seen == ["s2", "s1", "s6", "s5", "s4", "s3", "s0"]


@pytest.mark.req("CHAT-20")
async def test_the_list_is_filtered_by_project_agent_and_text(world: World):
    shared = await world.session(title="in 100% blue", project="blue")
    await world.session(title="other", agent="coder")
    assert await titles(world, project="blue") == ["in 100% blue"]
    assert await titles(world, project=shared.project_id) == ["in 100% blue"]
    assert await titles(world, agent="coder") == ["other"]
    assert await titles(world, text="100%") == ["in 100% blue"]
    assert await titles(world, text="%") == ["in 100% blue"]
    assert await titles(world, text="_") == []


@pytest.mark.req("CHAT-20")
async def test_search_finds_titles_and_message_text_with_a_snippet(world: World):
    by_title = await world.session(title="About Whales")
    by_text = await world.session(title="Other", at=AT + timedelta(hours=1))
    async with world.database.work() as work:
        long = "x " * 200 + "a whale swims" + " y" * 200
        await work.messages.add(world.ann, said(by_text, long))
        items, cursor = await work.sessions.search(world.ann, "WHALE")
        assert [session.id for session, _ in items] == [by_text.id, by_title.id]
        assert "a whale swims" in items[0][1]
        assert items[1][1] is None
        assert cursor is None
        first, cursor = await work.sessions.search(world.ann, "whale", limit=1)
        second, end = await work.sessions.search(world.ann, "whale", cursor, limit=1)
        assert [session.id for session, _ in first + second] == [by_text.id, by_title.id]
        assert end is None
        assert await work.sessions.search(world.ann, "100%") == ([], None)


@pytest.mark.req("CHAT-20", "L25")
async def test_a_search_for_signs_that_cannot_be_stored_finds_nothing(world: World):
    await world.session()
    async with world.database.work() as work:
        assert await work.sessions.search(world.ann, "\x00\ud800") == ([], None)


@pytest.mark.req("CHAT-20")
async def test_a_changed_cursor_is_refused(world: World):
    for _ in range(3):
        await world.session()
    async with world.database.work() as work:
        _, cursor = await work.sessions.list(world.ann, limit=1)
        assert cursor is not None
        changed = ("A" if cursor[9] != "A" else "B").join((cursor[:9], cursor[10:]))
        for wrong in ("", "x", "é", cursor[:-3], cursor + "AAAA", changed, "A" * 5000):
            with pytest.raises(BadRequest):
                await work.sessions.list(world.ann, cursor=wrong)
        with pytest.raises(BadRequest):
            await work.sessions.search(world.ann, "talk", cursor)
