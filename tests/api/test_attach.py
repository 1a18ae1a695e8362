"""Attaching to runs, leaving them and cancelling them, over the wire."""

import asyncio

import anyio
import pytest

from core.ids import new_id
from tests.api.conftest import Guest
from tests.api.test_edge import assert_error
from tests.support.app import Served, chat, eventually, frames_of, read
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, hold, say


@pytest.mark.req("CHAT-07", "S01", "S07")
async def test_a_run_can_be_replayed_from_any_place(guest: Guest):
    reply = await chat(guest.client)
    path = f"/api/runs/{reply.run_id}/events"

    async def replay(**options) -> list[dict]:
        again = await read(guest.client, "GET", path, **options)
        assert again.status == 200
        return [frame.data for frame in again.frames]

    whole = [frame.data for frame in reply.frames]
    middle = len(whole) // 2
    assert await replay() == whole
    assert await replay(params={"after": middle}) == whole[middle:]
    place = {"Last-Event-ID": f"{reply.run_id}:{middle}"}
    assert await replay(headers=place) == whole[middle:]
    assert await replay(headers=place, params={"after": 1}) == whole[middle:]
    assert await replay(headers={"Last-Event-ID": f"{new_id()}:{middle}"}) == whole
    assert await replay(headers={"Last-Event-ID": f"{reply.run_id}:99999"}) == whole
    assert await replay(params={"after": len(whole)}) == []


@pytest.mark.req("CHAT-07", "S01")
@pytest.mark.parametrize("junk", ["abc", "-1", "1", "{run}:-1", "{run}:x", "{run}", "{run}:1:1"])
async def test_a_junk_place_is_a_clear_refusal(guest: Guest, junk: str):
    reply = await chat(guest.client)
    headers = {"Last-Event-ID": junk.replace("{run}", reply.run_id)}
    answer = await guest.client.get(f"/api/runs/{reply.run_id}/events", headers=headers)
    assert_error(answer, 400, "bad_request")
    for after in ("-1", "x", "1.5", str(2**63), ""):
        answer = await guest.client.get(f"/api/runs/{reply.run_id}/events", params={"after": after})
        assert_error(answer, 422, "invalid")


@pytest.mark.req("CHAT-07", "CHAT-08", "S07", "P7")
async def test_leaving_changes_nothing_and_watchers_see_the_same_log(
    scripted_house: Served, scripted: ScriptedServer
):
    gate = Gate()
    scripted.play(hold(say("first half, second half", size=4), gate, after=3))
    async with scripted_house.client() as client:
        async with client.stream("POST", "/api/chat", data={"message": "hi"}) as stream:
            session_id = stream.headers["x-session-id"]
            run_id = stream.headers["x-run-id"]
            seen = [await anext(frames_of(stream))]
        path = f"/api/sessions/{session_id}/events"
        async with anyio.create_task_group() as tasks:
            logs: list[list[dict]] = [[], [], []]

            async def watch(index: int, **options) -> None:
                reply = await read(client, "GET", path, **options)
                assert reply.run_id == run_id
                logs[index] = [frame.data for frame in reply.frames]

            tasks.start_soon(watch, 0)
            tasks.start_soon(watch, 1)
            await anyio.lowlevel.checkpoint()
            gate.open()
        logs[2] = [
            frame.data for frame in (await read(client, "GET", f"/api/runs/{run_id}/events")).frames
        ]
        assert logs[0] == logs[1] == logs[2]
        assert logs[0][0] == seen[0].data
        assert logs[0][-1]["status"] == "success"
        ended = await client.get(path)
        assert (ended.status_code, ended.content) == (204, b"")


@pytest.mark.req("CHAT-08")
async def test_leaving_with_on_disconnect_cancel_stops_the_run_and_keeps_its_text(
    scripted_house: Served, scripted: ScriptedServer
):
    gate = Gate()
    scripted.play(hold(say("half an answer", size=20), gate, after=2))
    async with scripted_house.client() as client:
        form = {"message": "hi", "on_disconnect": "cancel"}
        async with client.stream("POST", "/api/chat", data=form) as stream:
            session_id, run_id = stream.headers["x-session-id"], stream.headers["x-run-id"]
            async for frame in frames_of(stream):
                if frame.type == "token":
                    break
        with anyio.fail_after(5):
            reply = await read(client, "GET", f"/api/runs/{run_id}/events")
        assert (reply.last["type"], reply.last["status"]) == ("done", "cancelled")
        run = (await client.get(f"/api/runs/{run_id}")).json()
        assert run["status"] == "cancelled"
        history = (await client.get(f"/api/chat/history/{session_id}")).json()["items"]
        assert history[-1]["status"] == "cancelled"
        assert history[-1]["parts"][0]["text"].startswith("half")
    gate.open()


@pytest.mark.req("CHAT-08", "D06")
async def test_cancelling_answers_202_and_frees_the_session(
    scripted_house: Served, scripted: ScriptedServer
):
    gate = Gate()
    scripted.play(hold(say("never finished", size=20), gate, after=2), say("fine"))
    async with scripted_house.client() as client:
        async with client.stream("POST", "/api/chat", data={"message": "hi"}) as stream:
            session_id, run_id = stream.headers["x-session-id"], stream.headers["x-run-id"]
            frames = frames_of(stream)
            async for frame in frames:
                if frame.type == "token":
                    break
            with anyio.fail_after(3):
                answer = await client.post(f"/api/runs/{run_id}/cancel")
                rest = [frame async for frame in frames]
        assert answer.status_code == 202
        assert answer.json()["id"] == run_id
        assert rest[-1].data["status"] == "cancelled"
        again = await client.post(f"/api/runs/{run_id}/cancel")
        assert assert_error(again, 409, "run_ended")["details"]["status"] == "cancelled"
        assert (await chat(client, "go on", session_id=session_id)).text == "fine"
    gate.open()
    assert scripted.refused == []


@pytest.mark.req("S03")
async def test_clients_gone_at_once_leave_no_watcher_and_no_connection(guest: Guest, house: Served):
    reply = await chat(guest.client)
    environment = house.product.environment
    path = f"/api/runs/{reply.run_id}/events"

    async def open_and_leave() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {guest.key}\r\n\r\n".encode()
        )
        await writer.drain()
        writer.transport.abort()

    for _ in range(10):
        await asyncio.gather(*(open_and_leave() for _ in range(10)))
    await eventually(lambda: environment.hub.watchers == 0)
    again = await read(guest.client, "GET", path)
    assert [frame.data for frame in again.frames] == [frame.data for frame in reply.frames]
