"""Deleting a session leaves nothing of it behind."""

from __future__ import annotations

import asyncio

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from core.errors import NotFound
from core.events import Token
from core.ids import new_id
from core.records import ArchiveRecord, SessionRecord, UsageRecord
from tests.storage.conftest import AT, World
from tests.storage.test_interrupts import question
from tests.storage.test_messages import result
from tests.storage.test_sessions import said


async def fill(world: World, session: SessionRecord) -> str:
    """Put one row into every table that can hold something of a session."""
    run = await world.run(session)
    async with world.database.work() as work:
        message = await work.messages.add(world.ann, said(session, "hello", run_id=run.id))
        await work.tool_results.add(world.ann, result(message))
        await work.events.append(run, [Token(content="x", message_id="m")], AT, None, 0)
        await work.interrupts.add(question(session, new_id(), run.id))
        archive = ArchiveRecord(new_id(), session.id, run.id, "/p", "s", 1, 2, 3, AT)
        await work.archives.add(world.ann, archive)
        await work.grants.add(world.ann, session.id, "tool")
        await work.request_keys.use(world.ann, new_id(), session.id, run.id)
        owner = (world.ann.workspace_id, world.ann.user_id, session.id, run.id)
        used = UsageRecord(new_id(), *owner, "a", "m", "turn", 1, 1, 0, 0, "provider", AT)
        await work.usage.add(used)
    saver = world.database.checkpointer()
    config = {"configurable": {"thread_id": session.id, "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": [HumanMessage("hello")]}
    checkpoint["channel_versions"] = {"messages": "1"}
    saved = await saver.aput(config, checkpoint, {}, {"messages": "1"})
    await saver.aput_writes(saved, [("messages", [HumanMessage("hello")])], "task")
    return run.id


async def rows_with(world: World, *texts: str) -> dict[str, int]:
    """Count, table by table, the rows in which one of the texts stands anywhere."""
    found: dict[str, int] = {}
    async with world.database.work() as work:
        tables = await work.connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
        for (name,) in await tables.fetchall():
            pattern = "|".join(texts)
            counted = await work.connection.execute(
                f'SELECT count(*) FROM "{name}" AS t WHERE t::text ~ %s', (pattern,)
            )
            count = (await counted.fetchone())[0]
            if count:
                found[name] = count
    return found


@pytest.mark.req("CHAT-20", "P17")
async def test_nothing_of_a_deleted_session_is_left_but_request_keys_and_unnamed_usage(
    world: World,
):
    session, other = await world.session(), await world.session()
    run_id, other_run = await fill(world, session), await fill(world, other)
    before = await rows_with(world, session.id, run_id)
    expected = {"sessions", "runs", "messages", "tool_results", "run_events", "interrupts"}
    expected |= {"archives", "tool_grants", "request_keys", "usage_events", "checkpoints"}
    expected |= {"checkpoint_blobs", "checkpoint_writes"}
    assert set(before) == expected
    untouched = await rows_with(world, other.id, other_run)
    async with world.database.work() as work:
        project = await work.sessions.delete(world.ann, session.id)
    assert project == session.project_id
    assert await rows_with(world, session.id, run_id) == {"request_keys": 1}
    assert await rows_with(world, other.id, other_run) == untouched
    async with world.database.work() as work:
        counted = await work.connection.execute("SELECT count(*) FROM usage_events")
        assert (await counted.fetchone())[0] == 2
        with pytest.raises(NotFound):
            await work.sessions.delete(world.ann, session.id)


@pytest.mark.req("CHAT-20", "WORK-01")
async def test_only_the_last_session_of_a_project_frees_its_files_even_when_two_go_at_once(
    world: World,
):
    made = [await world.session(project="shared") for _ in range(4)]
    assert len({session.project_id for session in made}) == 1

    async def delete(session: SessionRecord) -> str | None:
        async with world.database.work() as work:
            return await work.sessions.delete(world.ann, session.id)

    freed = await asyncio.gather(*(delete(session) for session in made))
    assert freed.count(None) == 3
    assert made[0].project_id in freed
    async with world.database.work() as work:
        assert not await work.sessions.any_in_project(made[0].project_id)
