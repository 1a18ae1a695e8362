"""Questions and plans: the run pauses, the answer is the call's result."""

from __future__ import annotations

import pytest

from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

QUESTIONS = [
    {"question": "Which colour?", "kind": "single", "options": ["red", "blue"]},
    {"question": "Why?", "kind": "text"},
]


@pytest.mark.req("EXEC-08", "CHAT-09")
async def test_answers_reach_the_model_and_bad_ones_spend_nothing(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.play(call("ask_user", {"questions": QUESTIONS}, id="q"), say("Blue it is."))
    waiting = await served.chat("paint")
    asked = waiting.last["ask_user"]["questions"]
    assert [question["question"] for question in asked] == ["Which colour?", "Why?"]
    for bad in (["blue"], ["green", "x"], ["blue", "x", "y"], [["blue", "red"], "x"]):
        assert (await served.resume(waiting, answers=bad)).status == 422
    done = await served.resume(waiting, answers=["blue", "it is calm"])
    assert done.last["type"] == "done"
    told = scripted.requests[-1].messages[-1]["content"]
    assert "blue" in told
    assert "it is calm" in told


@pytest.mark.req("EXEC-07")
async def test_in_plan_mode_a_writing_tool_is_refused_until_the_plan_is_approved(
    served: Talk, scripted: ScriptedServer
) -> None:
    write = {"path": "/workspace/a.txt", "content": "hello"}
    scripted.play(
        call("write_file", write, id="early"),
        call("request_plan_approval", {"plan": "1. write a.txt"}, id="plan"),
        call("write_file", write, id="late"),
        say("Written."),
    )
    waiting = await served.chat("write it", mode="plan")
    assert waiting.last["plan_approval"] == {"plan": "1. write a.txt"}
    assert results(await history(served, waiting.session_id))["early"] == "denied"
    assert scripted.requests[1].messages[-1]["role"] == "tool"
    done = await served.resume(waiting, type="approve")
    assert done.last["type"] == "done"
    assert results(await history(served, waiting.session_id))["late"] == "completed"
    # The next message begins without an approved plan.
    scripted.play(call("write_file", write, id="again"), say("Not allowed."))
    await served.chat("once more", session_id=waiting.session_id)
    assert results(await history(served, waiting.session_id))["again"] == "denied"


@pytest.mark.req("EXEC-07")
async def test_a_rejected_plan_keeps_the_gate_closed(
    served: Talk, scripted: ScriptedServer
) -> None:
    write = {"path": "/workspace/a.txt", "content": "hello"}
    scripted.play(
        call("request_plan_approval", {"plan": "bad plan"}, id="plan"),
        call("write_file", write, id="still"),
        say("I may not."),
    )
    waiting = await served.chat("write it", mode="plan")
    assert (await served.resume(waiting, type="maybe")).status == 422
    done = await served.resume(waiting, type="reject", message="think again")
    assert done.last["type"] == "done"
    assert results(await history(served, waiting.session_id))["still"] == "denied"
    assert any("think again" in str(m) for m in scripted.requests[1].messages)


@pytest.mark.req("EXEC-07", "CHAT-06")
async def test_a_todo_list_is_shown_whole(served: Talk, scripted: ScriptedServer) -> None:
    todos = [
        {"content": "look", "status": "completed"},
        {"content": "write", "status": "in_progress"},
    ]
    scripted.play(call("update_plan", {"todos": todos}, id="t"), say("ok"))
    reply = await served.chat("plan it")
    assert reply.of("updated_todo_list")[0]["todos"] == todos
