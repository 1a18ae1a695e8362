"""Few seats and many runs: who waits, who goes first, and that everybody is served."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import assert_numbered
from tests.support.app import Reply, chat, eventually, frames_of, read
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, hold, say

ONE_SEAT = {"worker_concurrency": 1, "hitl_tools": "write_file"}


@pytest.mark.req("EXEC-22", "CHAT-12", "P13")
async def test_runs_that_wait_for_people_keep_no_seat(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    scripted.on("ask", call("write_file", {"path": "/workspace/a", "content": "x"}), say("done"))
    scripted.on("plain", say("fine"))
    async with open_served(**ONE_SEAT) as served:
        waiting = [await served.chat(f"ask {number}") for number in range(3)]
        assert [reply.last["type"] for reply in waiting] == ["interrupt"] * 3
        for number in range(3):
            reply = await asyncio.wait_for(served.chat(f"plain {number}"), 10)
            assert reply.last["type"] == "done"
        for reply in reversed(waiting):
            id = reply.last["tool_approval"]["calls"][0]["tool_call_id"]
            decisions = [{"tool_call_id": id, "type": "approve"}]
            ended = await asyncio.wait_for(served.resume(reply, decisions=decisions), 10)
            assert ended.last["status"] == "success"
        health = (await served.client.get("/health")).json()
        assert "queued" in str(health)


async def whole(
    client: httpx.AsyncClient, form: dict[str, str], begun: asyncio.Future[None]
) -> Reply:
    """Send a message and read its stream; tell as soon as it was taken."""
    async with client.stream("POST", "/api/chat", data=form) as stream:
        begun.set_result(None)
        reply = Reply(stream.status_code, stream.headers)
        reply.frames = [frame async for frame in frames_of(stream)]
    return reply


@pytest.mark.req("EXEC-32", "CHAT-12", "P13")
async def test_with_one_seat_users_take_turns(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    gate = Gate()
    scripted.on("first", hold(say("ok"), gate))
    async with open_served(**ONE_SEAT, user_concurrency=1) as served:
        sent: list[asyncio.Task[Reply]] = [asyncio.create_task(served.chat("first"))]
        assert await asyncio.to_thread(gate.reached.wait, 10)
        clients = []
        for name, count in (("ann", 6), ("bob", 2), ("eve", 2)):
            client = served.served.client(await served.served.key_of(name))
            clients.append(client)
            for number in range(count):
                form = {"message": f"{name} {number}"}
                begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                sent.append(asyncio.create_task(whole(client, form, begun)))
                await asyncio.wait_for(begun, 10)
        gate.open()
        replies = await asyncio.wait_for(asyncio.gather(*sent), 30)
        for client in clients:
            await client.aclose()
    assert {reply.last["type"] for reply in replies} == {"done"}
    order = [seen.last_user.split()[0] for seen in scripted.requests[1:]]
    assert order == ["ann", "bob", "eve", "ann", "bob", "eve", "ann", "ann", "ann", "ann"]


@pytest.mark.req("EXEC-30", "EXEC-32", "P1", "P13")
async def test_sixty_runs_of_three_users_over_two_processes_all_end(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    scripted.default = say("fine", pause=0.001)
    limits = {"worker_concurrency": 3, "user_concurrency": 2, "hitl_tools": ""}
    async with open_served(**limits) as one, open_served(**limits) as two:
        keys = [await one.served.key_of(name) for name in ("ann", "bob", "eve")]
        clients = [side.served.client(key) for key in keys for side in (one, two)]
        replies = await asyncio.wait_for(
            asyncio.gather(*(chat(clients[n % 6], f"message {n}") for n in range(60))), 50
        )
        for reply in replies:
            assert reply.status == 200, reply.body
            assert_numbered(reply.frames)
            assert reply.last["status"] == "success"
            assert reply.text == "fine"
        for client in clients:
            await client.aclose()
        for side in (one, two):
            await eventually(lambda side=side: side.served.product.environment.hub.watchers == 0)
            assert side.served.product.environment.worker.running == 0
    assert len(scripted.requests) == 60


@pytest.mark.req("CHAT-07", "CHAT-08", "S07", "P7")
async def test_two_processes_show_and_stop_each_others_runs(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    gate = Gate()
    scripted.on("work", hold(say("one two three four five", size=4), gate, after=3))
    async with open_served() as one, open_served() as two:
        sides = (one, two)
        for side, other in (sides, sides[::-1]):
            gate.reached.clear()
            sent = asyncio.create_task(side.chat("work"))
            assert await asyncio.to_thread(gate.reached.wait, 10)
            [session] = (await other.client.get("/api/sessions", params={"limit": 1})).json()[
                "items"
            ]
            [run] = (await other.client.get(f"/api/sessions/{session['id']}/runs")).json()["items"]
            watcher = asyncio.create_task(
                read(other.client, "GET", f"/api/runs/{run['id']}/events")
            )
            stopped = await other.client.post(f"/api/runs/{run['id']}/cancel")
            assert stopped.status_code == 202
            mine = await asyncio.wait_for(sent, 3)
            theirs = await asyncio.wait_for(watcher, 3)
            assert [f.data for f in mine.frames] == [f.data for f in theirs.frames]
            assert_numbered(mine.frames)
            assert mine.last["status"] == "cancelled"
        gate.open()


@pytest.mark.req("CHAT-12", "EXEC-31", "P13")
async def test_a_full_queue_says_when_to_come_back_and_takes_nothing(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    gate = Gate()
    scripted.on("first", hold(say("ok"), gate))
    async with open_served(**ONE_SEAT, queue_per_user=1) as served:
        first = asyncio.create_task(served.chat("first"))
        assert await asyncio.to_thread(gate.reached.wait, 10)
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        second = asyncio.create_task(whole(served.client, {"message": "second"}, begun))
        await asyncio.wait_for(begun, 10)
        form = {"message": "third", "request_id": "r3"}
        files = [("file", ("a.txt", b"x", "text/plain"))]
        refused = await served.client.post("/api/chat", data=form, files=files)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "queue_full"
        assert refused.json()["error"]["retry_after"] > 0
        assert int(refused.headers["retry-after"]) > 0
        assert len((await served.client.get("/api/sessions")).json()["items"]) == 2
        other = served.served.client(await served.served.key_of("bob"))
        theirs = asyncio.create_task(chat(other, "mine"))
        gate.open()
        for sent in (first, second, theirs):
            assert (await asyncio.wait_for(sent, 10)).last["status"] == "success"
        assert (await served.chat("third", request_id="r3")).status == 200
        await other.aclose()
