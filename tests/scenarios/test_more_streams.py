"""Streams and cancels under stress: who leaves, who watches, who stops whom, in what order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from core.ids import new_id
from tests.scenarios.stage import Stage
from tests.scenarios.whole import assert_numbered, history, results, texts
from tests.support.app import Frame, Reply, chat, eventually, frames_of, read
from tests.support.scripted_turns import Gate, call, calls, hold, say


def word() -> str:
    """Return a word that no other test has."""
    return f"w{new_id()[-10:]}"


async def reached(gate: Gate) -> None:
    """Wait until a turn stands at the gate."""
    assert await asyncio.to_thread(gate.reached.wait, 10)


async def newest(client: httpx.AsyncClient) -> tuple[str, str]:
    """Return the session and the run that were begun last."""
    [session] = (await client.get("/api/sessions", params={"limit": 1})).json()["items"]
    runs = (await client.get(f"/api/sessions/{session['id']}/runs")).json()["items"]
    return session["id"], runs[0]["id"]


async def status_of(stage: Stage, run_id: str) -> str:
    """Return how a run is doing."""
    return str((await stage.client.get(f"/api/runs/{run_id}")).json()["status"])


async def rests(stage: Stage, run_id: str) -> Reply:
    """Follow a run to its rest."""
    async with asyncio.timeout(10):
        return await read(stage.client, "GET", f"/api/runs/{run_id}/events")


# Headers and places -----------------------------------------------------------------------


@pytest.mark.req("CHAT-02", "CHAT-05", "CHAT-07", "OPS-07")
async def test_every_stream_of_a_run_names_session_run_and_trace(stage: Stage) -> None:
    mark = word()
    stage.scripted.on(
        mark, call("write_file", {"path": "/workspace/a", "content": "x"}), say("done")
    )
    trace = {"X-Trace-Id": f"trace.{mark}"}
    async with stage.served.client() as client:
        client.headers.update(trace)
        first = await chat(client, mark)
        again = await read(client, "GET", f"/api/runs/{first.run_id}/events")
        joined = await read(client, "GET", f"/api/sessions/{first.session_id}/events")
        call_id = first.last["tool_approval"]["calls"][0]["tool_call_id"]
        body = {
            "session_id": first.session_id,
            "interrupt_token": first.last["interrupt_token"],
            "decisions": [{"tool_call_id": call_id, "type": "approve"}],
        }
        resumed = await read(client, "POST", "/api/chat/resume", json=body)
    for reply in (first, again, joined, resumed):
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert (reply.session_id, reply.run_id) == (first.session_id, first.run_id)
        assert reply.headers["x-trace-id"] == trace["X-Trace-Id"]
        assert reply.headers["x-accel-buffering"] == "no"
        assert reply.headers["cache-control"] == "no-store"
        assert_numbered(reply.frames)
        assert {frame.data["trace_id"] for frame in reply.frames} == {trace["X-Trace-Id"]}
    assert [f.data for f in again.frames] == [f.data for f in joined.frames]
    assert resumed.frames[0].data["seq"] == first.last["seq"] + 1
    assert resumed.frames[0].type == "interrupt_resolved"
    assert resumed.last["type"] == "done"


@pytest.mark.req("CHAT-12", "EXEC-30", "P5")
async def test_whoever_reads_the_end_may_send_the_next_message_at_once(stage: Stage) -> None:
    stage.scripted.on("quick", say("yes"))
    session: dict[str, str] = {}
    for number in range(40):
        reply = await stage.chat(f"quick {number}", **session)
        assert reply.status == 200, (number, reply.body)
        assert reply.last["status"] == "success"
        session = {"session_id": reply.session_id}
    spoken = texts(await history(stage, session["session_id"]))
    assert spoken == [
        pair for n in range(40) for pair in (("user", f"quick {n}"), ("assistant", "yes"))
    ]


# Leaving ----------------------------------------------------------------------------------


async def leave_at(stage: Stage, form: dict[str, str], kind: str | None) -> None:
    """Send a message and go away: at once, or after the first event of that type."""
    async with stage.client.stream("POST", "/api/chat", data=form) as stream:
        if kind is None:
            return
        async for frame in frames_of(stream):
            if frame.type == kind:
                return


@pytest.mark.req("CHAT-08", "S03", "D06")
@pytest.mark.parametrize("kind", [None, "user_message", "thinking", "token", "tool_call"])
@pytest.mark.parametrize(("wish", "end"), [("cancel", "cancelled"), ("continue", "success")])
async def test_who_leaves_takes_the_run_along_only_where_asked(
    stage: Stage, kind: str | None, wish: str, end: str
) -> None:
    mark, gate = word(), Gate()
    stage.scripted.on(
        mark,
        call("now", {}, text="Let me look."),
        hold(say("a long answer", size=4), gate, after=2),
    )
    await leave_at(stage, {"message": mark, "on_disconnect": wish}, kind)
    session_id, run_id = await newest(stage.client)
    if wish == "cancel":
        reply = await rests(stage, run_id)
        gate.open()
    else:
        gate.open()
        reply = await rests(stage, run_id)
    assert (reply.last["type"], reply.last["status"]) == ("done", end)
    assert await status_of(stage, run_id) == end
    assert None not in results(await history(stage, session_id)).values()
    await stage.goes_on(session_id)


@pytest.mark.req("CHAT-08")
async def test_a_wish_to_be_cancelled_holds_for_the_answer_to_a_question_too(
    stage: Stage,
) -> None:
    mark, gate = word(), Gate()
    stage.scripted.on(
        mark,
        call("write_file", {"path": "/workspace/a", "content": "x"}),
        hold(say("a long answer", size=4), gate, after=2),
    )
    asked = await stage.chat(mark, on_disconnect="cancel")
    assert asked.last["type"] == "interrupt"
    assert await status_of(stage, asked.run_id) == "waiting_input"
    call_id = asked.last["tool_approval"]["calls"][0]["tool_call_id"]
    body = {
        "session_id": asked.session_id,
        "interrupt_token": asked.last["interrupt_token"],
        "decisions": [{"tool_call_id": call_id, "type": "approve"}],
    }
    await stage.client.get("/api/sessions")
    assert await status_of(stage, asked.run_id) == "waiting_input", "its stream ended by itself"
    async with stage.client.stream("POST", "/api/chat/resume", json=body) as stream:
        assert stream.status_code == 200
        async for frame in frames_of(stream):
            if frame.type == "token":
                break
    reply = await rests(stage, asked.run_id)
    gate.open()
    assert reply.last["status"] == "cancelled"
    assert reply.text.startswith("a lo")
    await stage.goes_on(asked.session_id)


@pytest.mark.req("S03", "P13")
async def test_a_crowd_that_leaves_at_once_leaves_nothing_behind(stage: Stage) -> None:
    mark = word()
    stage.scripted.on(mark, say("fine"))
    port = int(stage.served.url.rpartition(":")[2])
    hub = stage.served.product.environment.hub
    before = hub.watchers

    async def knock(number: int) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        body = f"message={mark}+{number}"
        head = (
            "POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {stage.served.key}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        writer.write(head.encode())
        await writer.drain()
        writer.transport.abort()

    await asyncio.gather(*(knock(number) for number in range(20)))
    await eventually(lambda: hub.watchers == before)
    # Every message that was taken is answered; nobody is left waiting.
    await stage.chat("and now?")
    worker = stage.served.product.environment.worker
    await eventually(lambda: worker.running == 0)
    sessions = (await stage.client.get("/api/sessions", params={"text": mark})).json()["items"]
    for session in sessions:
        runs = (await stage.client.get(f"/api/sessions/{session['id']}/runs")).json()["items"]
        assert [run["status"] for run in runs] == ["success"]


# Cancelling -------------------------------------------------------------------------------


async def three_tools(stage: Stage, gate: Gate) -> tuple[str, str, asyncio.Task[Reply]]:
    """Begin a run that stands in its second turn, after three calls."""
    mark = word()
    stage.scripted.on(
        mark,
        calls([("now", {}, f"{mark}{n}") for n in range(3)]),
        hold(say("half of an answer", size=4), gate, after=2),
    )
    sent = asyncio.create_task(stage.chat(mark))
    await reached(gate)
    return *await newest(stage.client), sent


@pytest.mark.req("CHAT-08", "D06", "P10")
async def test_many_cancels_at_once_are_one_and_later_ones_are_told(stage: Stage) -> None:
    gate = Gate()
    session_id, run_id, sent = await three_tools(stage, gate)
    statuses = await asyncio.gather(*(stage.cancel(run_id) for _ in range(10)))
    reply = await asyncio.wait_for(sent, 3)
    gate.open()
    assert set(statuses) <= {202, 409}
    assert 202 in statuses
    assert [frame.type for frame in reply.frames].count("done") == 1
    assert reply.last["status"] == "cancelled"
    assert_numbered(reply.frames)
    assert await stage.cancel(run_id) == 409
    assert set(results(await history(stage, session_id)).values()) == {"completed"}
    await stage.goes_on(session_id)


@pytest.mark.req("CHAT-08", "CHAT-12", "Z01", "P14")
async def test_another_users_run_can_neither_be_seen_nor_stopped(stage: Stage) -> None:
    gate = Gate()
    session_id, run_id, sent = await three_tools(stage, gate)
    async with stage.served.client(await stage.served.key_of(word())) as other:
        for made_up, real in ((new_id(), run_id), (new_id(), session_id)):
            for method, path in (
                ("POST", "/api/runs/{}/cancel"),
                ("GET", "/api/runs/{}/events"),
                ("GET", "/api/runs/{}"),
                ("GET", "/api/sessions/{}/events"),
                ("GET", "/api/chat/history/{}"),
            ):
                foreign = await other.request(method, path.format(real))
                nobody = await other.request(method, path.format(made_up))
                assert foreign.status_code == nobody.status_code == 404
                assert foreign.json() == nobody.json()
    gate.open()
    assert (await asyncio.wait_for(sent, 10)).last["status"] == "success"


@pytest.mark.req("CHAT-08", "EXEC-30")
async def test_cancels_at_any_moment_end_the_run_once_and_leave_the_session_usable(
    stage: Stage,
) -> None:
    """Eight runs, each stopped a little later: while queued, in the model, in a tool, after."""
    mark = word()
    stage.scripted.on(mark, call("now", {}), say("a b c d e f g h", size=1, pause=0.004))
    loop = asyncio.get_running_loop()
    for number in range(8):
        async with stage.client.stream("POST", "/api/chat", data={"message": mark}) as stream:
            run_id, session_id = stream.headers["x-run-id"], stream.headers["x-session-id"]
            frames: list[Frame] = []
            stop: asyncio.Task[int] | None = None
            async for frame in frames_of(stream):
                frames.append(frame)
                if stop is None and frame.data["seq"] > number:
                    stop = loop.create_task(stage.cancel(run_id))
        assert_numbered(frames)
        assert frames[-1].type == "done"
        assert stop is not None
        assert await stop in (202, 409)
        assert await status_of(stage, run_id) == frames[-1].data["status"]
        assert None not in results(await history(stage, session_id)).values()
        await stage.goes_on(session_id)


# Watching ---------------------------------------------------------------------------------


async def log_of(client: httpx.AsyncClient, run_id: str, **options: Any) -> list[dict[str, Any]]:
    """Follow a run as one watcher, reconnecting whenever three frames were read."""
    seen: list[dict[str, Any]] = []
    cut = options.get("every")
    while True:
        place = {"Last-Event-ID": f"{run_id}:{seen[-1]['seq']}"} if seen else {}
        count = 0
        async for frame in _frames(client, run_id, place):
            seen.append(frame.data)
            count += 1
            if frame.type in ("done", "error", "interrupt"):
                return seen
            if cut and count == cut:
                break


async def _frames(
    client: httpx.AsyncClient, run_id: str, headers: dict[str, str]
) -> AsyncIterator[Frame]:
    path = f"/api/runs/{run_id}/events"
    async with client.stream("GET", path, headers=headers) as stream:
        async for frame in frames_of(stream):
            yield frame


@pytest.mark.req("CHAT-07", "S01", "S07", "P7")
async def test_steady_and_restless_watchers_end_with_the_same_log(stage: Stage) -> None:
    mark, gate = word(), Gate()
    stage.scripted.on(mark, call("now", {}), hold(say("x" * 400, size=4, pause=0.002), gate))
    sent = asyncio.create_task(stage.chat(mark))
    await reached(gate)
    session_id, run_id = await newest(stage.client)
    watchers = [
        asyncio.create_task(log_of(stage.client, run_id, every=every)) for every in (None, 1, 3, 7)
    ]
    gate.open()
    reply = await asyncio.wait_for(sent, 10)
    logs = await asyncio.wait_for(asyncio.gather(*watchers), 10)
    assert all(log == [frame.data for frame in reply.frames] for log in logs)
    assert texts(await history(stage, session_id))[-1] == ("assistant", reply.text)
