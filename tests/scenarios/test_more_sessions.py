"""Sessions kept for long: refusals, search, paging, deletions, preferences, what fills the window."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.ids import new_id
from tests.scenarios.stage import Stage, fresh_database
from tests.scenarios.whole import history, texts
from tests.support.app import Served, chat, in_background, provider_settings
from tests.support.postgres import execute
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, calls, hold, say


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """The product for this file: small uploads, `write_file` needs approval."""
    settings = provider_settings(provider.base_url) | {"openai_max_retries": 0, "max_upload_mb": 1}
    with (
        fresh_database(postgres) as url,
        in_background(url, FOLDER, hitl_tools="write_file", **settings) as served,
    ):
        yield served
    shutil.rmtree(FOLDER, ignore_errors=True)


def word() -> str:
    """Return a word that no other test has."""
    return f"w{new_id()[-10:]}"


def files(pattern: str = "*") -> list[str]:
    """Return the files that are stored, and the projects' folders; users' folders stay."""
    return sorted(str(path) for path in FOLDER.rglob(pattern) if _is_projects(path))


def _is_projects(path: Path) -> bool:
    return len(path.relative_to(FOLDER).parts) > 3


async def everything(stage: Stage) -> dict[str, Any]:
    """Count what a refused message must not leave behind."""
    tables = ("sessions", "projects", "runs", "messages", "run_events", "request_keys")
    counts = {
        table: execute(stage.served.product.database.url, f"SELECT count(*) FROM {table}")
        for table in tables
    }
    return counts | {"files": files()}


FOLDER = Path(tempfile.gettempdir()) / f"gw-sessions-{new_id()}"
FILE = ("a.txt", b"hello", "text/plain")
REFUSED: dict[str, tuple[int, str, dict[str, str], list[tuple[str, bytes, str]]]] = {
    "an agent that is not there": (404, "not_found", {"agent": "drafty"}, []),
    "a model that is not there": (422, "invalid", {"model": "gpt-nowhere"}, []),
    "a session that is not there": (404, "not_found", {"session_id": new_id()}, []),
    "a thread without its session": (404, "not_found", {"thread_id": new_id()}, []),
    "a skill that is not there": (404, "not_found", {"message": "#skill:weather go"}, []),
    "a quoted session that is not there": (
        404,
        "not_found",
        {"message": f"#session:{new_id()} go"},
        [FILE],
    ),
    "a later way of multitasking": (422, "invalid", {"multitask": "enqueue"}, [FILE]),
    "a mode that is not there": (422, "invalid", {"mode": "turbo"}, [FILE]),
    "a good file, then one with a path": (
        400,
        "path_refused",
        {},
        [FILE, ("../../x", b"x", "text/plain")],
    ),
    "a good file, then one that is too large": (
        413,
        "too_large",
        {},
        [FILE, ("big.bin", b"x" * (1 << 20) + b"y", "text/plain")],
    ),
    "a blank message with a file": (422, "invalid", {"message": " \n "}, [FILE]),
}


@pytest.mark.req("EXEC-31", "CHAT-01", "CHAT-03", "CHAT-12", "F01")
@pytest.mark.parametrize("case", REFUSED)
async def test_a_refused_message_leaves_nothing_and_its_request_id_is_free(
    stage: Stage, case: str
) -> None:
    status, code, fields, sent = REFUSED[case]
    key = word()
    before = await everything(stage)
    form = {"message": "hello", "request_id": key} | fields
    answer = await stage.client.post(
        "/api/chat", data=form, files=[("file", file) for file in sent] or None
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert await everything(stage) == before
    assert (await stage.chat("hello", request_id=key)).status == 200


@pytest.mark.req("CHAT-04", "P2")
async def test_a_request_id_outlives_its_session_and_is_each_users_own(stage: Stage) -> None:
    key = word()
    first = await stage.chat("hello", request_id=key)
    assert (await stage.client.delete(f"/api/sessions/{first.session_id}")).status_code == 204
    again = await stage.chat("hello", request_id=key)
    assert (again.status, again.error["code"]) == (409, "duplicate_request")
    assert again.error["details"] == {"session_id": first.session_id, "run_id": first.run_id}
    async with stage.served.client(await stage.served.key_of(word())) as other:
        assert (await chat(other, "hello", request_id=key)).status == 200


@pytest.mark.req("CHAT-20", "L25")
@pytest.mark.parametrize(
    ("text", "finds", "misses"),
    [
        ("50% off_now", ["50%", "% off", "off_now", "50% OFF_NOW"], ["50_", "off%now", "5%0"]),
        (r"C:\new\table", ["C:\\new", "\\table", "new\\t"], ["C:/new", "\\\\new"]),
        ("请把季度总结发给我", ["季度", "季度总结", "发给我"], ["季总", "年度"]),
        ("naïve café 🗺️ map", ["CAFÉ", "naïve", "🗺"], ["cafe", "naive"]),
        ('it\'s "quoted"; --', ["it's", '"quoted"', "; --"], ["its", "'; --'"]),
    ],
)
async def test_search_takes_every_sign_for_itself(
    stage: Stage, text: str, finds: list[str], misses: list[str]
) -> None:
    mark = word()
    async with stage.served.client(await stage.served.key_of(mark)) as client:
        told = await chat(client, f"{'x' * 80} {text}")
        named = await chat(client, "hello")
        await client.put(f"/api/sessions/{named.session_id}/title", json={"title": text})

        async def found(q: str) -> set[str]:
            answer = await client.get("/api/sessions/search", params={"q": q})
            assert answer.status_code == 200, answer.text
            return {one["id"] for one in answer.json()["items"]}

        for q in finds:
            assert await found(q) == {told.session_id, named.session_id}, q
        for q in misses:
            assert await found(q) == set(), q
    other = await stage.client.get("/api/sessions/search", params={"q": text})
    assert other.json()["items"] == []


@pytest.mark.req("CHAT-20")
async def test_paging_goes_on_where_it_stood_while_sessions_come_move_and_go(
    stage: Stage,
) -> None:
    async with stage.served.client(await stage.served.key_of(word())) as client:
        made = [(await chat(client, f"talk {number}")).session_id for number in range(7)]
        for id in made[:2]:
            await client.put(f"/api/sessions/{id}/pin", json={"pinned": True})
        page = (await client.get("/api/sessions", params={"limit": 3})).json()
        assert [one["id"] for one in page["items"]] == [made[1], made[0], made[6]]
        await chat(client, "new")
        await chat(client, "again", session_id=made[6])
        await client.delete(f"/api/sessions/{made[4]}")
        await client.put(f"/api/sessions/{made[0]}/pin", json={"pinned": False})
        rest: list[str] = []
        while page["next_cursor"]:
            params = {"limit": 2, "cursor": page["next_cursor"]}
            page = (await client.get("/api/sessions", params=params)).json()
            rest += [one["id"] for one in page["items"]]
    assert [id for id in rest if id != made[0]] == [made[5], made[3], made[2]]


@pytest.mark.req("CHAT-11")
async def test_history_is_paged_backwards_while_messages_are_added(stage: Stage) -> None:
    mark = word()
    first = await stage.chat(f"{mark} 0")
    for number in range(1, 4):
        await stage.chat(f"{mark} {number}", session_id=first.session_id)
    path = f"/api/chat/history/{first.session_id}"
    whole = [one["id"] for one in await history(stage, first.session_id)]
    page = (await stage.client.get(path, params={"limit": 3})).json()
    seen = [one["id"] for one in page["items"]]
    await stage.chat(f"{mark} late", session_id=first.session_id)
    while page["next_cursor"]:
        params = {"limit": 3, "cursor": page["next_cursor"]}
        page = (await stage.client.get(path, params=params)).json()
        seen = [one["id"] for one in page["items"]] + seen
    assert seen == whole


@pytest.mark.req("CHAT-21", "P10", "L23")
@pytest.mark.parametrize("gone", [[0], [1], [2], [0, 1], [1, 4], [3], [5], [0, 1, 2, 3, 4, 5]])
async def test_any_message_can_be_deleted_and_the_history_stays_valid(
    stage: Stage, gone: list[int]
) -> None:
    mark = word()
    stage.scripted.on(
        f"{mark} 1",
        calls([("now", {}, f"{mark}a"), ("list_files", {}, f"{mark}b")], text="Looking."),
        say(f"{mark} found"),
    )
    for number in (0, 2):
        stage.scripted.on(f"{mark} {number}", say(f"{mark} told {number}"))
    first = await stage.chat(f"{mark} 0")
    for number in (1, 2):
        await stage.chat(f"{mark} {number}", session_id=first.session_id)
    before = await history(stage, first.session_id)
    assert len(before) == 7
    for index in gone:
        path = f"/api/messages/{before[index]['id']}"
        assert (await stage.client.delete(path)).status_code == 204
        assert (await stage.client.delete(path)).status_code == 404
    left = [one for index, one in enumerate(before) if index not in gone]
    assert await history(stage, first.session_id) == left
    await stage.goes_on(first.session_id)
    sent = str(stage.requests[-1].messages)
    for index, one in enumerate(before):
        for _, text in texts([one]):
            assert (text in sent) == (index not in gone), text


@pytest.mark.req("CHAT-27")
async def test_preferences_stand_in_the_next_request_and_in_no_other_users(stage: Stage) -> None:
    mark, name = word(), word()
    async with (
        stage.served.client(await stage.served.key_of(name)) as ann,
        stage.served.client(await stage.served.key_of(word())) as bob,
    ):
        first = await chat(ann, f"{mark} before")
        await ann.put("/api/preferences", json={"text": f"Always say {mark}!"})
        assert (await bob.get("/api/preferences")).json()["text"] == ""

        async def system(client: Any, **fields: Any) -> str:
            await chat(client, "hello", **fields)
            return str(stage.requests[-1].messages[0])

        assert f"Always say {mark}!" in await system(ann, session_id=first.session_id)
        assert mark not in await system(bob)
        context = (await ann.get(f"/api/sessions/{first.session_id}/context")).json()
        assert context["parts"]["memory"] > 0
        assert (await ann.delete("/api/preferences")).status_code == 204
        assert mark not in await system(ann)


@pytest.mark.req("CHAT-21", "EXEC-07")
async def test_a_mode_counts_from_the_next_turn_on(stage: Stage) -> None:
    mark, gate = word(), Gate()
    stage.scripted.on(
        mark,
        hold(call("write_file", {"path": "/workspace/a.txt", "content": "x"}), gate),
        say("done"),
    )
    sent = asyncio.create_task(stage.chat(mark))
    assert await asyncio.to_thread(gate.reached.wait, 10)
    [session] = (await stage.client.get("/api/sessions", params={"limit": 1})).json()["items"]
    changed = await stage.client.put(f"/api/sessions/{session['id']}/mode", json={"mode": "plan"})
    assert changed.status_code == 200
    gate.open()
    reply = await asyncio.wait_for(sent, 10)
    assert reply.last["type"] == "interrupt", "the run under way keeps its mode"
    decided = [{"tool_call_id": reply.last["tool_approval"]["calls"][0]["tool_call_id"]}]
    await stage.resume(reply, decisions=[decided[0] | {"type": "reject"}])
    again = word()
    stage.scripted.on(
        again, call("write_file", {"path": "/workspace/a.txt", "content": "x"}), say("no")
    )
    planned = await stage.chat(again, session_id=reply.session_id)
    assert planned.last["type"] == "done"
    assert planned.of("tool_result")[0]["error"]


@pytest.mark.req("CHAT-22", "EXEC-14")
async def test_the_context_shows_what_the_provider_counted(stage: Stage) -> None:
    mark = word()
    stage.scripted.on(mark, say("ok", usage={"prompt_tokens": 1234, "completion_tokens": 56}))
    reply = await stage.chat(mark)
    path = f"/api/sessions/{reply.session_id}/context"
    context = (await stage.client.get(path)).json()
    assert (context["tokens"], context["usage_source"]) == (1290, "provider")
    assert context["parts"]["files"] == 0
    answer = await stage.client.post(
        "/api/chat",
        data={"message": "with a file", "session_id": reply.session_id},
        files=[("file", FILE)],
    )
    assert answer.status_code == 200
    assert (await stage.client.get(path)).json()["parts"]["files"] > 0


@pytest.mark.req("CHAT-26")
async def test_feedback_is_checked_kept_and_taken_back(stage: Stage) -> None:
    reply = await stage.chat("hello")
    [asked, _] = await history(stage, reply.session_id)
    path = f"/api/messages/{asked['id']}/feedback"
    bad: list[Any] = [{}, {"feedback": "meh"}, {"feedback": 1}, {"feedback": "up", "x": 1}, [], 1]
    bad += [{"feedback": "up", "note": "x" * 4001}, {"feedback": "up", "note": 5}]
    for body in bad:
        assert (await stage.client.put(path, json=body)).status_code == 422, body
    good = await stage.client.put(path, json={"feedback": "down", "note": "不对"})
    assert (good.json()["feedback"], good.json()["feedback_note"]) == ("down", "不对")
    [kept, _] = await history(stage, reply.session_id)
    assert (kept["feedback"], kept["feedback_note"]) == ("down", "不对")
    back = await stage.client.put(path, json={"feedback": None})
    assert (back.json()["feedback"], back.json()["feedback_note"]) == (None, None)
    async with stage.served.client(await stage.served.key_of(word())) as other:
        assert (await other.put(path, json={"feedback": "up"})).status_code == 404


@pytest.mark.req("CHAT-03", "Z01", "P14")
async def test_a_quoted_session_must_be_ones_own(stage: Stage) -> None:
    mark = word()
    reply = await stage.chat(f"{mark} secret")
    quoted = await stage.chat(f"#session:{reply.session_id} what was it?")
    assert mark in str(stage.requests[-1].messages)
    [asked, _] = await history(stage, quoted.session_id)
    assert texts([asked]) == [("user", "what was it?")]
    async with stage.served.client(await stage.served.key_of(word())) as other:
        refused = await chat(other, f"#session:{reply.session_id} what was it?")
        made_up = await chat(other, f"#session:{new_id()} what was it?")
        assert refused.status == made_up.status == 404
        assert refused.error == made_up.error
        assert (await other.get("/api/sessions")).json()["items"] == []


@pytest.mark.req("CHAT-20", "P17")
async def test_a_deleted_session_leaves_neither_files_nor_rows(stage: Stage) -> None:
    mark, gate = word(), Gate()
    answer = await stage.client.post(
        "/api/chat", data={"message": mark}, files=[("file", (f"{mark}.txt", b"x", "text/plain"))]
    )
    session_id, run_id = answer.headers["x-session-id"], answer.headers["x-run-id"]
    assert len(files(f"{mark}*")) == 1
    stage.scripted.on(f"{mark} long", hold(say("slow"), gate))
    sent = asyncio.create_task(stage.chat(f"{mark} long", session_id=session_id))
    assert await asyncio.to_thread(gate.reached.wait, 10)
    path = f"/api/sessions/{session_id}"
    assert (await stage.client.delete(path)).status_code == 409
    async with stage.served.client(await stage.served.key_of(word())) as other:
        assert (await other.delete(path)).status_code == 404
    gate.open()
    assert (await asyncio.wait_for(sent, 10)).last["status"] == "success"
    assert (await stage.client.delete(path)).status_code == 204
    assert files(f"{mark}*") == []
    url = stage.served.product.database.url
    for table, column, value in (
        ("messages", "session_id", session_id),
        ("runs", "session_id", session_id),
        ("checkpoints", "thread_id", session_id),
        ("checkpoint_writes", "thread_id", session_id),
        ("checkpoint_blobs", "thread_id", session_id),
        ("run_events", "run_id", run_id),
    ):
        rows = execute(url, f"SELECT 1 FROM {table} WHERE {column} = %s", (value,))
        assert not rows, table
