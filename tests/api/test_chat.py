"""The chat contract over the wire: form, headers, frames, repeats, refusals, questions."""

import asyncio
import json

import anyio
import httpx
import pytest

from core.ids import new_id
from tests.api.conftest import Guest
from tests.support.app import Reply, Served, chat, frames_of, read, resume
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, hold, say


def assert_refused(reply: Reply, status: int, code: str) -> dict:
    assert (reply.status, reply.error["code"]) == (status, code), reply.body
    return reply.error


@pytest.mark.req("CHAT-01", "CHAT-02", "CHAT-05", "CHAT-06")
async def test_a_message_is_answered_by_a_stream_of_numbered_frames(guest: Guest):
    reply = await chat(guest.client, "hello")
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["cache-control"] == "no-store"
    assert [frame.data["seq"] for frame in reply.frames] == list(range(1, len(reply.frames) + 1))
    for frame in reply.frames:
        assert frame.id == f"{reply.run_id}:{frame.data['seq']}"
        assert frame.data["session_id"] == reply.session_id
        assert frame.data["run_id"] == reply.run_id
        assert frame.data["trace_id"] == reply.headers["x-trace-id"]
    assert reply.text
    assert (reply.last["type"], reply.last["status"]) == ("done", "success")


@pytest.mark.req("CHAT-01")
@pytest.mark.parametrize("kind", ["multipart", "urlencoded", "json"])
async def test_all_three_kinds_of_body_are_taken(guest: Guest, kind: str):
    fields = {"message": "你好 🗺\nline two", "mode": "plan", "request_id": new_id()}
    options = {
        "multipart": {"files": [(name, (None, value)) for name, value in fields.items()]},
        "urlencoded": {"data": fields},
        "json": {"json": {**fields, "agent": None}},
    }[kind]
    reply = await read(guest.client, "POST", "/api/chat", **options)
    assert reply.status == 200
    session = (await guest.client.get(f"/api/sessions/{reply.session_id}")).json()
    assert session["mode"] == "plan"
    history = (await guest.client.get(f"/api/chat/history/{reply.session_id}")).json()["items"]
    assert history[0]["parts"][0] == {"type": "text", "text": fields["message"]}


@pytest.mark.req("CHAT-01", "CHAT-11")
async def test_files_come_with_the_message_under_safe_names(guest: Guest):
    files = [
        ("file", ("季度总结.txt", b"one")),
        ("file", ("季度总结.txt", b"two")),
        ("file", ("notes.txt", b"three")),
    ]
    reply = await read(guest.client, "POST", "/api/chat", data={"message": "hi"}, files=files)
    assert reply.status == 200
    history = (await guest.client.get(f"/api/chat/history/{reply.session_id}")).json()["items"]
    stored = [part for part in history[0]["parts"] if part["type"] == "file"]
    paths = [part["path"] for part in stored]
    assert len(set(paths)) == 3
    assert all(path.startswith("/workspace/uploads/") for path in paths)
    assert paths[0].endswith("季度总结.txt")
    assert [part["size"] for part in stored] == [3, 3, 5]


@pytest.mark.req("CHAT-01", "CHAT-12", "F01")
@pytest.mark.parametrize(
    "name", ["../../x", "..\\x", "/etc/x", "a/../../x", ".", "..", "", "CON", "-rf", "a" * 1_000]
)
async def test_no_file_name_leaves_the_uploads_folder(guest: Guest, name: str):
    files = [("file", (name, b"x"))] if name else [("file", ("\\", b"x"))]
    reply = await read(guest.client, "POST", "/api/chat", data={"message": "hi"}, files=files)
    if reply.status == 200:
        history = await guest.client.get(f"/api/chat/history/{reply.session_id}")
        path = history.json()["items"][0]["parts"][-1]["path"]
        assert path.startswith("/workspace/uploads/")
        assert ".." not in path.removeprefix("/workspace/uploads/").split("/")
        assert path.removeprefix("/workspace/uploads/").count("/") == 0
    else:
        assert reply.status == 400
        assert reply.error["code"] in ("file_refused", "path_refused", "bad_request")


@pytest.mark.req("CHAT-01", "CHAT-12")
async def test_what_is_refused_leaves_nothing_behind(guest: Guest):
    wrong = [
        {},
        {"message": ""},
        {"message": " \n\t"},
        {"message": "x" * 200_001},
        {"message": "hi", "mode": "other"},
        {"message": "hi", "request_id": "x" * 129},
        {"message": "hi", "on_disconnect": "maybe"},
        {"message": "hi", "multitask": "all"},
        {"message": "hi", "model": "no-such-model"},
        {"message": "hi", "thinking": "x" * 33},
        {"message": "hi", "role": "system"},
    ]
    for fields in wrong:
        reply = await read(guest.client, "POST", "/api/chat", data=fields)
        assert_refused(reply, 422, "invalid")
    unknown = [
        {"message": "hi", "session_id": new_id()},
        {"message": "hi", "session_id": "junk"},
        {"message": "hi", "thread_id": new_id()},
        {"message": "hi", "agent": "no-such-agent"},
    ]
    for fields in unknown:
        assert_refused(await read(guest.client, "POST", "/api/chat", data=fields), 404, "not_found")
    assert (await guest.client.get("/api/sessions")).json()["items"] == []


@pytest.mark.req("CHAT-01", "CHAT-12")
async def test_thread_id_must_equal_session_id(guest: Guest):
    first = await chat(guest.client)
    other = await chat(guest.client)
    same = {"session_id": first.session_id, "thread_id": first.session_id}
    assert (await chat(guest.client, **same)).status == 200
    differs = {"session_id": first.session_id, "thread_id": other.session_id}
    assert_refused(await chat(guest.client, **differs), 404, "not_found")


@pytest.mark.req("CHAT-04")
async def test_the_same_request_id_runs_once_and_names_the_first_run(guest: Guest, house: Served):
    key = new_id()
    replies = await asyncio.gather(*(chat(guest.client, request_id=key) for _ in range(4)))
    first = next(reply for reply in replies if reply.status == 200)
    for reply in replies:
        if reply is not first:
            error = assert_refused(reply, 409, "duplicate_request")
            assert error["details"]["session_id"] == first.session_id
            assert error["details"]["run_id"] == first.run_id
    assert len((await guest.client.get("/api/sessions")).json()["items"]) == 1
    async with house.client(await house.key_of(f"{guest.name}-2")) as other:
        assert (await chat(other, request_id=key)).status == 200


@pytest.mark.req("CHAT-12", "D01", "P5")
async def test_of_two_messages_at_once_one_runs_and_one_is_told_busy(
    scripted_house: Served, scripted: ScriptedServer
):
    async with scripted_house.client() as client:
        first = await chat(client)
        gate = Gate()
        scripted.play(hold(say("later"), gate), hold(say("later"), gate))

        async def send(text: str) -> Reply:
            reply = await chat(client, text, session_id=first.session_id)
            gate.open()
            return reply

        with anyio.fail_after(10):
            replies = await asyncio.gather(*(send(f"m{number}") for number in range(4)))
        statuses = sorted(reply.status for reply in replies)
        assert statuses == [200, 409, 409, 409]
        for reply in replies:
            if reply.status == 409:
                assert_refused(reply, 409, "session_busy")
        history = (await client.get(f"/api/chat/history/{first.session_id}")).json()["items"]
        assert [message["role"] for message in history] == ["user", "assistant"] * 2


@pytest.fixture
def asking(scripted: ScriptedServer) -> ScriptedServer:
    """A provider whose first turn asks the user something."""
    question = {"questions": [{"question": "Which colour?", "kind": "text"}]}
    scripted.play(call("ask_user", question), say("Noted."))
    return scripted


@pytest.mark.req("CHAT-09", "CHAT-10", "H01")
@pytest.mark.parametrize("kind", ["json", "urlencoded", "multipart"])
async def test_a_question_is_shown_again_and_answered_once(
    scripted_house: Served, asking: ScriptedServer, kind: str
):
    async with scripted_house.client() as client:
        reply = await chat(client)
        assert reply.last["type"] == "interrupt"
        where = {"session_id": reply.session_id}
        card = await client.get("/api/chat/interrupt", params=where)
        assert card.status_code == 200
        assert card.json()["interrupt_token"] == reply.last["interrupt_token"]
        assert card.json()["ask_user"] == reply.last["ask_user"]
        fields = {**where, "interrupt_token": reply.last["interrupt_token"]}
        text = json.dumps(["blue"])
        options = {
            "json": {"json": {**fields, "answers": ["blue"]}},
            "urlencoded": {"data": {**fields, "answers": text}},
            "multipart": {
                "files": [(k, (None, v)) for k, v in {**fields, "answers": text}.items()]
            },
        }[kind]
        answers = await asyncio.gather(
            *(read(client, "POST", "/api/chat/resume", **options) for _ in range(5))
        )
        assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]
        taken = next(answer for answer in answers if answer.status == 200)
        assert taken.run_id == reply.run_id
        assert taken.frames[0].data["seq"] == len(reply.frames) + 1
        assert taken.last["status"] == "success"
        for answer in answers:
            if answer.status == 409:
                assert answer.error["code"] in ("stale_interrupt", "no_pending_interrupt")
        gone = await client.get("/api/chat/interrupt", params=where)
        assert (gone.status_code, gone.content) == (204, b"")


@pytest.mark.req("CHAT-09", "H06")
async def test_a_malformed_answer_is_refused_and_the_right_one_still_works(
    scripted_house: Served, asking: ScriptedServer
):
    async with scripted_house.client() as client:
        reply = await chat(client)
        where = {
            "session_id": reply.session_id,
            "interrupt_token": reply.last["interrupt_token"],
        }
        malformed = [
            where,
            where | {"answers": []},
            where | {"answers": ["a", "b"]},
            where | {"answers": "blue"},
            where | {"answers": [5]},
            where | {"answers": [None]},
            where | {"answers": None},
            where | {"decisions": [{"type": "approve"}]},
            where | {"type": "approve"},
            where | {"answers": ["blue"], "surprise": 1},
            where | {"answers": ["x" * 10_000_000]},
            [where],
            "approved",
            None,
            {},
        ]
        for body in malformed:
            answer = await read(client, "POST", "/api/chat/resume", json=body)
            assert_refused(answer, 422, "invalid")
        spent = [
            {"session_id": reply.session_id, "answers": ["blue"]},
            where | {"interrupt_token": "made-up", "answers": ["blue"]},
        ]
        for body in spent:
            answer = await read(client, "POST", "/api/chat/resume", json=body)
            assert_refused(answer, 409, "stale_interrupt")
        assert (await resume(client, reply, answers=["blue"])).last["status"] == "success"
        late = await resume(client, reply, answers=["blue"])
        assert late.status == 409


@pytest.mark.req("CHAT-09")
async def test_nothing_to_answer_is_409(guest: Guest):
    reply = await chat(guest.client)
    body = {"session_id": reply.session_id, "interrupt_token": "x", "answers": ["y"]}
    answer = await read(guest.client, "POST", "/api/chat/resume", json=body)
    assert_refused(answer, 409, "no_pending_interrupt")


@pytest.mark.req("CHAT-12")
async def test_a_full_queue_is_429_with_the_time_to_wait(database_url, tmp_path, scripted):
    from tests.support.app import provider_settings, served_product

    gate = Gate()
    scripted.default = hold(say("later"), gate)
    settings = provider_settings(scripted.base_url) | {
        "worker_concurrency": 1,
        "queue_per_user": 1,
    }
    async with (
        served_product(database_url, tmp_path, **settings) as house,
        house.client() as client,
    ):
        running = await client.send(message_of(client), stream=True)
        await anyio.to_thread.run_sync(scripted.wait_for, 1)
        queued = await client.send(message_of(client), stream=True)
        full = await chat(client)
        error = assert_refused(full, 429, "queue_full")
        assert error["retry_after"] >= 1
        assert int(full.headers["retry-after"]) >= 1
        gate.open()
        for stream in (running, queued):
            frames = [frame async for frame in frames_of(stream)]
            assert frames[-1].data["status"] == "success"
            await stream.aclose()


def message_of(client: httpx.AsyncClient) -> httpx.Request:
    return client.build_request("POST", "/api/chat", data={"message": "hi"})
