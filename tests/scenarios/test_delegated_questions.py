"""What an agent asks while it works on a task reaches the user, and its work goes on (EXEC-41)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import assert_numbered, card, history, results
from tests.support.app import Reply
from tests.support.delegation import delegating, house, of_agent, parts_of
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

CHIEF = {"agent": "chief"}
SUM = {"expression": "6*7"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        add(tmp_path / "ext", "house", house())
        yield tmp_path / "ext"


@pytest.fixture
async def talk(open_served: Opener, folder: Path) -> AsyncIterator[Talk]:
    """The product; `calculate` needs approval, and only the researcher has it."""
    async with open_served(extensions_path=str(folder)) as served:
        yield served


async def followed(talk: Talk, reply: Reply) -> Reply:
    """Return all events of a run from its first one."""
    whole = await talk.follow(f"/api/runs/{reply.run_id}/events")
    assert_numbered(whole.frames)
    return whole


@pytest.mark.req("EXEC-41", "EXEC-20", "EXEC-23")
@pytest.mark.parametrize(
    ("decision", "result", "status"),
    [
        ({"type": "approve"}, "42", "completed"),
        ({"type": "edit", "args": {"expression": "2*5"}}, "10", "completed"),
        ({"type": "reject", "message": "too dear"}, "too dear", "denied"),
        ({"type": "respond", "message": "It is 43."}, "It is 43.", "completed"),
    ],
)
async def test_a_tool_of_a_task_is_decided_on_the_usual_card(
    talk: Talk, scripted: ScriptedServer, decision: dict[str, Any], result: str, status: str
) -> None:
    scripted.on("ask around", delegating("count it"), say("Counted."))
    scripted.on("count it", call("calculate", SUM), say("There you are."))
    reply = await talk.chat("ask around", **CHIEF)
    [asked] = card(reply)
    assert (asked["tool"], asked["args"]) == ("calculate", SUM)
    assert reply.last["agent_id"] == "researcher:call_1"
    pending = await talk.client.get(f"/api/chat/interrupt?session_id={reply.session_id}")
    assert pending.json()["tool_approval"]["calls"] == [asked]

    done = await talk.resume(reply, decisions=[{"tool_call_id": asked["tool_call_id"], **decision}])
    assert (done.text, done.last["status"]) == ("Counted.", "success")
    told = done.of("tool_result")
    assert result in told[0]["content"]
    assert told[0]["tool_call_id"] == asked["tool_call_id"]
    [part] = parts_of(await history(talk, reply.session_id))
    assert [one["result"]["status"] for one in part["activity"]] == [status]
    assert part["activity"][0]["args"] == decision.get("args", SUM)
    whole = await followed(talk, reply)
    assert of_agent(whole.frames, "researcher:call_1").count("agent_start") == 1
    assert [event["tool"] for event in whole.of("tool_call")] == ["delegate", "calculate"]
    # The researcher was asked twice in all: the answer went on where it stood.
    assert len(scripted.requests) == 4


@pytest.mark.req("EXEC-41", "EXEC-20")
async def test_an_edit_that_does_not_fit_the_agents_tool_leaves_the_question(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("count it"), say("Counted."))
    scripted.on("count it", call("calculate", SUM), say("There you are."))
    reply = await talk.chat("ask around", **CHIEF)
    wrong = await talk.resume(reply, decisions=[{"type": "edit", "args": {"sum": "1"}}])
    assert wrong.status == 422
    assert (await talk.resume(reply, decisions=[{"type": "approve"}])).text == "Counted."


@pytest.mark.req("EXEC-41", "EXEC-20")
async def test_a_standing_grant_counts_for_tasks_too(talk: Talk, scripted: ScriptedServer) -> None:
    scripted.on("ask around", delegating("count it"), say("Counted."))
    scripted.on("count it", call("calculate", SUM), say("There you are."))
    reply = await talk.chat("ask around", **CHIEF)
    await talk.resume(reply, decisions=[{"type": "approve", "always": "session"}])
    again = await talk.chat("ask around", session_id=reply.session_id)
    assert again.last["status"] == "success"


@pytest.mark.req("EXEC-41", "EXEC-08")
async def test_a_question_of_a_task_is_answered_by_the_user(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("look"), say("Found."))
    question = {"questions": [{"question": "Where?", "kind": "single", "options": ["N", "S"]}]}
    scripted.on("look", call("ask_user", question), say("There."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.last["ask_user"]["questions"][0]["question"] == "Where?"
    assert (await talk.resume(reply, answers=["N"])).text == "Found."
    assert '"answer": "N"' in str(scripted.requests[2].messages[-1]["content"])


@pytest.mark.req("EXEC-41", "EXEC-03", "EXEC-21")
async def test_two_tasks_that_ask_at_once_are_asked_about_one_after_the_other(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on(
        "ask around",
        calls(
            [
                ("delegate", {"agent": "researcher", "task": "count north"}, "call_1"),
                ("delegate", {"agent": "researcher", "task": "count south"}, "call_2"),
                ("delegate", {"agent": "researcher", "task": "just look"}, "call_3"),
                ("now", {}, "call_4"),
            ]
        ),
        say("All counted."),
    )
    for place in ("north", "south"):
        written = {"path": f"/workspace/{place}.txt", "content": place}
        scripted.on(
            f"count {place}",
            calls([("write_file", written, "w"), ("now", {}, "n")]),
            call("calculate", SUM, id="c"),
            say(f"{place} counted"),
        )
    scripted.on("just look", say("seen"))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.last["agent_id"] == "researcher:call_1"
    first = card(reply)
    second = await talk.resume(reply, decisions=[{"type": "approve"}])
    assert second.last["agent_id"] == "researcher:call_2"
    assert card(second)[0]["tool_call_id"] != first[0]["tool_call_id"]
    assert (await talk.resume(reply, decisions=[{"type": "approve"}])).status == 409
    done = await talk.resume(second, decisions=[{"type": "reject", "message": "no"}])
    assert (done.text, done.last["status"]) == ("All counted.", "success")

    whole = await followed(talk, reply)
    ran = [event["tool_call_id"] for event in whole.of("tool_call")]
    told = [event["tool_call_id"] for event in whole.of("tool_result")]
    assert len(ran) == len(set(ran)) == 10
    assert sorted(told) == sorted(ran)
    # Two conversations of three turns, one of one, the chief's two: nothing was asked twice.
    assert len(scripted.requests) == 9
    began = [event["agent_id"] for event in whole.of("agent_start")]
    assert began == ["chief", *(f"researcher:call_{number}" for number in (1, 2, 3))]
    assert len(whole.of("agent_done")) == 4
    messages = await history(talk, reply.session_id)
    assert set(results(messages).values()) == {"completed"}
    done = [one for part in parts_of(messages) for one in part.get("activity", ())]
    inner = [one["result"]["status"] for one in done]
    assert sorted(inner) == ["completed"] * 5 + ["denied"]


@pytest.mark.req("EXEC-41", "EXEC-20", "EXEC-08")
async def test_one_turn_of_a_task_may_ask_for_approval_an_answer_and_a_plan(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("do it"), say("Done."))
    scripted.on(
        "do it",
        calls(
            [
                ("ask_user", {"questions": [{"question": "Where?"}]}, "q"),
                ("request_plan_approval", {"plan": "1. Go."}, "p"),
                ("calculate", SUM, "c"),
            ]
        ),
        say("It is done."),
    )
    approval = await talk.chat("ask around", **CHIEF)
    question = await talk.resume(approval, decisions=[{"type": "approve"}])
    assert question.last["ask_user"]["questions"][0]["question"] == "Where?"
    plan = await talk.resume(question, answers=["North"])
    assert plan.last["plan_approval"]["plan"] == "1. Go."
    done = await talk.resume(plan, type="approve")
    assert (done.text, done.last["status"]) == ("Done.", "success")
    told = [str(message["content"]) for message in scripted.requests[2].messages[-3:]]
    assert all(word in text for word, text in zip(("North", "1. Go.", "42"), told, strict=True))


@pytest.mark.req("EXEC-41", "EXEC-22")
async def test_a_question_of_a_task_waits_through_a_restart(
    open_served: Opener, folder: Path, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("count it"), say("Counted."))
    scripted.on("count it", call("now"), call("calculate", SUM), say("There you are."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("ask around", **CHIEF)
    async with open_served(extensions_path=str(folder)) as served:
        done = await served.resume(reply, decisions=[{"type": "approve"}])
        assert done.text == "Counted."
        [part] = parts_of(await history(served, reply.session_id))
        assert [one["tool"] for one in part["activity"]] == ["now", "calculate"]
    assert len(scripted.requests) == 5


@pytest.mark.req("EXEC-41", "CHAT-08")
async def test_a_run_that_waits_for_a_task_can_be_cancelled_and_the_next_begins_anew(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("count it"), say("Counted."))
    scripted.on("count it", call("calculate", SUM), say("There you are."))
    reply = await talk.chat("ask around", **CHIEF)
    assert (await talk.client.post(f"/api/runs/{reply.run_id}/cancel")).status_code == 202
    whole = await followed(talk, reply)
    assert whole.last["status"] == "cancelled"
    assert results(await history(talk, reply.session_id)) == {"call_1": "cancelled"}
    again = await talk.chat("ask around", session_id=reply.session_id)
    # The same call again has a sub-run of its own: it asks for its own first turn.
    assert card(again)[0]["tool"] == "calculate"
    assert len(scripted.requests) == 4
