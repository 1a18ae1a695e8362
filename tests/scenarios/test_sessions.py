"""Sessions as a user keeps them: busy, repeated, cancelled, deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results, texts
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, calls, hold, say


async def reached(gate: Gate) -> None:
    """Wait until a turn stands at the gate."""
    assert await asyncio.to_thread(gate.reached.wait, 10)


@pytest.mark.req("CHAT-12", "EXEC-30", "D01")
async def test_of_twenty_messages_at_once_one_runs_and_the_rest_are_refused(
    served: Talk, scripted: ScriptedServer
) -> None:
    gate = Gate()
    first = await served.chat("begin")
    scripted.on("u", hold(say("slow"), gate))
    sent = [
        asyncio.create_task(served.chat(f"u{n}", session_id=first.session_id)) for n in range(20)
    ]
    await reached(gate)
    done, _ = await asyncio.wait(sent, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 19:
        more, _ = await asyncio.wait(
            set(sent) - done, timeout=10, return_when=asyncio.FIRST_COMPLETED
        )
        assert more
        done |= more
    gate.open()
    replies = await asyncio.gather(*sent)
    assert sorted(reply.status for reply in replies) == [200] + [409] * 19
    [won] = [n for n, reply in enumerate(replies) if reply.status == 200]
    assert texts(await history(served, first.session_id))[2:] == [
        ("user", f"u{won}"),
        ("assistant", "slow"),
    ]


@pytest.mark.req("CHAT-04")
async def test_a_request_id_never_runs_twice(served: Talk, scripted: ScriptedServer) -> None:
    scripted.on("once", say("done"))
    replies = await asyncio.gather(*(served.chat("once", request_id="r-1") for _ in range(5)))
    assert sorted(reply.status for reply in replies) == [200] + [409] * 4
    [won] = [reply for reply in replies if reply.status == 200]
    again = await served.client.post("/api/chat", data={"message": "x", "request_id": "r-1"})
    assert again.status_code == 409
    assert again.json()["error"]["code"] == "duplicate_request"
    assert again.json()["error"]["details"]["run_id"] == won.run_id
    assert again.json()["error"]["details"]["session_id"] == won.session_id
    assert len(scripted.requests) == 1


@pytest.mark.req("CHAT-08", "D06")
async def test_a_cancelled_answer_keeps_its_text_and_the_session_goes_on(
    served: Talk, scripted: ScriptedServer
) -> None:
    gate = Gate()
    scripted.play(hold(say("This is a long answer."), gate, after=3))
    sent = asyncio.create_task(served.chat("tell"))
    await reached(gate)
    [session] = (await served.client.get("/api/sessions")).json()["items"]
    [run] = (await served.client.get(f"/api/sessions/{session['id']}/runs")).json()["items"]
    stopped = await served.client.post(f"/api/runs/{run['id']}/cancel")
    assert stopped.status_code == 202
    reply = await asyncio.wait_for(sent, 5)
    gate.open()
    assert reply.last["type"] == "done"
    assert reply.last["status"] == "cancelled"
    [_, kept] = await history(served, session["id"])
    assert kept["status"] == "cancelled"
    assert texts([kept]) == [("assistant", reply.text)]
    after = await served.chat("hello?", session_id=session["id"])
    assert after.last["type"] == "done"
    assert scripted.refused == []
    sent_text = str(scripted.requests[-1].messages)
    assert reply.text in sent_text


@pytest.mark.req("CHAT-08", "D06", "EXEC-22")
async def test_cancelling_a_waiting_approval_closes_its_calls(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("go", calls([("calculate", {"expression": "1+1"}, "c")]), say("no"))
    waiting = await served.chat("go")
    assert (await served.client.post(f"/api/runs/{waiting.run_id}/cancel")).status_code == 202
    assert results(await history(served, waiting.session_id)) == {"c": "cancelled"}
    late = await served.resume(waiting, decisions=[{"tool_call_id": "c", "type": "approve"}])
    assert late.status == 409
    after = await served.chat("hello?", session_id=waiting.session_id)
    assert after.last["type"] == "done"
    assert scripted.refused == []


@pytest.mark.req("CHAT-07", "CHAT-28")
async def test_a_finished_run_replays_exactly_what_was_shown(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.play(say("One two three."))
    reply = await served.chat("count")
    path = f"/api/runs/{reply.run_id}/events"
    again = await served.follow(path)
    assert [frame.data for frame in again.frames] == [frame.data for frame in reply.frames]
    middle = reply.frames[2]
    rest = await served.follow(path, headers={"Last-Event-ID": middle.id})
    assert [frame.id for frame in rest.frames] == [frame.id for frame in reply.frames[3:]]
    nothing = await served.client.get(f"/api/sessions/{reply.session_id}/events")
    assert nothing.status_code == 204


@pytest.mark.req("CHAT-20", "P17")
async def test_a_deleted_session_is_gone_everywhere(served: Talk, scripted: ScriptedServer) -> None:
    scripted.play(say("secret answer"))
    reply = await served.chat("secret question")
    assert (await served.client.delete(f"/api/sessions/{reply.session_id}")).status_code == 204
    for path in (
        f"/api/chat/history/{reply.session_id}",
        f"/api/runs/{reply.run_id}/events",
        f"/api/sessions/{reply.session_id}/runs",
    ):
        assert (await served.client.get(path)).status_code == 404
    found = await served.client.get("/api/sessions/search", params={"q": "secret"})
    assert found.json()["items"] == []
