"""Sessions and messages as their owners see and change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import NotFound, SessionBusy
from core.ids import new_id
from runtime.commands import Upload
from tests.runtime.conftest import Bench, Ground
from tests.support.postgres import execute
from tests.support.scripted_turns import call, say


def rows_with(bench: Bench, text: str) -> list[str]:
    """Return the tables in which a text stands anywhere."""
    tables = execute(
        bench.url,
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = 'public' AND table_type = 'BASE TABLE'",
    )
    found: list[str] = []
    for (table,) in tables:
        query = f'SELECT count(*) FROM "{table}" AS t WHERE t::text LIKE %s'
        if execute(bench.url, query, (f"%{text}%",))[0][0]:
            found.append(table)
    return found


def files_named(folder: Path, pattern: str) -> list[Path]:
    return list(folder.rglob(pattern))


@pytest.mark.req("CHAT-20", "P17")
async def test_a_deleted_session_is_gone_with_rows_checkpoints_and_files(bench: Bench):
    ground = await bench.open()
    kept, _ = await ground.chat("keep this")
    submitted, _ = await ground.chat("the canary sings", files=(Upload("canary.txt", b"x"),))
    assert "checkpoints" in rows_with(bench, submitted.session_id)
    await ground.environment.sessions.delete(ground.ann, submitted.session_id)
    assert rows_with(bench, submitted.session_id) == []
    assert rows_with(bench, "canary") == []
    assert files_named(bench.folder, "canary*") == []
    with pytest.raises(NotFound):
        await ground.history(submitted.session_id)
    assert len(await ground.history(kept.session_id)) == 2
    assert execute(bench.url, "SELECT count(*) FROM usage_events")[0][0] == 2


@pytest.mark.req("CHAT-20", "CHAT-21")
async def test_nothing_is_deleted_under_an_active_run(ground: Ground):
    ground.scripted.play(call("delete", {"path": "/a"}))
    submitted, _ = await ground.chat("please")
    sessions = ground.environment.sessions
    message = (await ground.history(submitted.session_id))[0]
    with pytest.raises(SessionBusy):
        await sessions.delete(ground.ann, submitted.session_id)
    with pytest.raises(SessionBusy):
        await sessions.delete_message(ground.ann, message["id"])
    assert len(await ground.history(submitted.session_id)) == 2


@pytest.mark.req("CHAT-21")
async def test_a_deleted_message_is_gone_for_people_and_for_the_model(ground: Ground):
    ground.scripted.play(call("lookup", {"key": "secret"}), say("It is secret."))
    submitted, _ = await ground.chat("look")
    _, turn, answer = await ground.history(submitted.session_id)
    for message in (turn, answer):
        await ground.environment.sessions.delete_message(ground.ann, message["id"])
    assert [one["role"] for one in await ground.history(submitted.session_id)] == ["user"]
    _, events = await ground.chat("and now?", submitted.session_id)
    assert events[-1].data["status"] == "success"
    sent = str(ground.scripted.requests[-1].messages)
    assert "look" in sent
    assert "secret" not in sent
    assert ground.scripted.refused == []


@pytest.mark.req("CHAT-11", "CHAT-26")
async def test_history_shows_results_and_the_whole_result_is_fetched_by_id(ground: Ground):
    ground.scripted.play(call("lookup", {"key": "k" * 500}, id="c1"), say("Long."))
    submitted, _ = await ground.chat("look")
    turn = (await ground.history(submitted.session_id))[1]
    (part,) = turn["parts"]
    assert part["cn_tool"] == "Look up"
    assert part["result"]["status"] == "completed"
    assert part["result"]["full"] is False
    assert len(part["result"]["preview"]) == 400
    sessions = ground.environment.sessions
    whole = await sessions.tool_result(ground.ann, turn["id"], "c1")
    assert whole.content == "value of " + "k" * 500
    marked = await sessions.feedback(ground.ann, turn["id"], "up", "nice")
    assert (marked["feedback"], marked["feedback_note"]) == ("up", "nice")
    assert (await sessions.feedback(ground.ann, turn["id"], None))["feedback"] is None


@pytest.mark.req("CHAT-11")
async def test_history_is_paged_backwards_without_gaps(ground: Ground):
    submitted, _ = await ground.chat("m0")
    for number in range(1, 4):
        await ground.chat(f"m{number}", submitted.session_id)
    seen: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        items, cursor = await ground.environment.sessions.history(
            ground.ann, submitted.session_id, cursor=cursor, limit=3
        )
        seen = items + seen
        if cursor is None:
            break
    assert [one["id"] for one in seen] == [
        one["id"] for one in await ground.history(submitted.session_id)
    ]
    assert len(seen) == 8


@pytest.mark.req("CHAT-20", "CHAT-21", "CHAT-22")
async def test_sessions_are_named_pinned_searched_and_measured(ground: Ground):
    submitted, _ = await ground.chat("a heron in the reeds")
    other, _ = await ground.chat("something else")
    sessions = ground.environment.sessions
    assert (await sessions.pin(ground.ann, submitted.session_id, True)).pinned_at
    items, _ = await sessions.list(ground.ann)
    assert [one.id for one in items] == [submitted.session_id, other.session_id]
    renamed = await sessions.set_title(ground.ann, submitted.session_id, "Birds")
    assert (renamed.title, renamed.title_source) == ("Birds", "user")
    assert (await sessions.set_mode(ground.ann, submitted.session_id, "plan")).mode == "plan"
    found, _ = await sessions.search(ground.ann, "reeds")
    assert [one["id"] for one in found] == [submitted.session_id]
    assert "reeds" in found[0]["snippet"]
    (run,) = await sessions.runs(ground.ann, submitted.session_id)
    assert run.id == submitted.run_id
    use = await sessions.context(ground.ann, submitted.session_id)
    assert use["tokens"] == run.context_tokens > 0
    assert use["usage_source"] == "provider"
    assert use["parts"]["tools"] > 0
    assert use["parts"]["history"] > 0
    assert use["archives"] == []


@pytest.mark.req("IDENT-05", "P14")
async def test_the_sessions_of_others_are_not_found(ground: Ground):
    submitted, _ = await ground.chat("mine")
    message = (await ground.history(submitted.session_id))[0]
    bob = await ground.user("bob")
    sessions = ground.environment.sessions
    for session_id in (submitted.session_id, new_id(), "x"):
        for attempt in (
            sessions.get(bob, session_id),
            sessions.delete(bob, session_id),
            sessions.pin(bob, session_id, True),
            sessions.set_title(bob, session_id, "mine now"),
            sessions.set_mode(bob, session_id, "plan"),
            sessions.history(bob, session_id),
            sessions.runs(bob, session_id),
            sessions.context(bob, session_id),
            ground.runs.active_run(bob, session_id),
            ground.runs.pending_interrupt(bob, session_id),
        ):
            with pytest.raises(NotFound):
                await attempt
    for attempt in (
        sessions.delete_message(bob, message["id"]),
        sessions.feedback(bob, message["id"], "up"),
        sessions.tool_result(bob, message["id"], "c1"),
        ground.runs.get(bob, submitted.run_id),
        ground.runs.cancel(bob, submitted.run_id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await sessions.list(bob))[0] == []


@pytest.mark.req("CHAT-27")
async def test_preferences_stand_in_the_prompt_of_every_turn(ground: Ground):
    preferences = ground.environment.preferences
    assert await preferences.get(ground.ann) is None
    await preferences.put(ground.ann, "Answer like a pirate.")
    await ground.chat("hi")
    assert "Answer like a pirate." in ground.scripted.requests[-1].messages[0]["content"]
    await preferences.delete(ground.ann)
    await ground.chat("hi")
    assert "pirate" not in ground.scripted.requests[-1].messages[0]["content"]


@pytest.mark.req("EXEC-01")
async def test_an_agent_shows_its_graph(ground: Ground):
    agents = ground.environment.agents
    assert [one["id"] for one in agents.list()] == ["assistant"]
    assert agents.list()[0]["approval_tools"] == ["delete", "post"]
    drawn = await agents.graph("assistant")
    for node in ("prepare", "summarise", "call_model", "approve", "run_tool", "observe"):
        assert node in drawn
    with pytest.raises(NotFound):
        await agents.graph("nobody")
