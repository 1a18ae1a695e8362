"""Odd answers to approvals, questions and plans: refused whole, or carried out exactly."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.scenarios.stage import Stage
from tests.scenarios.whole import history, results
from tests.support.app import Reply
from tests.support.scripted_turns import call, calls, say

GATED = {"expression": "1+1"}


async def waiting_at(stage: Stage, word: str, *asked: tuple[str, Any, str]) -> Reply:
    """Bring a run to its card; the word is that of this test alone."""
    stage.scripted.on(f"go {word}.", calls(asked or [("calculate", GATED, "g")]), say("End."))
    waiting = await stage.chat(f"go {word}.")
    assert waiting.last["type"] == "interrupt", waiting.last
    return waiting


BAD_EDITS: dict[str, dict[str, Any]] = {
    "missing argument": {},
    "unknown argument": {"expression": "1", "sudo": True},
    "another type": {"expression": ["1"]},
    "null": {"expression": None},
    "number beyond 64 bits": {"expression": 10**30},
    "nested deeply": {"expression": json.loads("[" * 150 + "]" * 150)},
}


@pytest.mark.req("EXEC-20", "H04", "H06")
@pytest.mark.parametrize("name", BAD_EDITS)
async def test_an_edit_that_does_not_fit_spends_nothing(stage: Stage, name: str) -> None:
    waiting = await waiting_at(stage, f"edit {name}")
    decision = {"tool_call_id": "g", "type": "edit", "args": BAD_EDITS[name]}
    refused = await stage.resume(waiting, decisions=[decision])
    assert refused.status in (400, 422)
    done = await stage.resume(waiting, decisions=[decision | {"args": {"expression": "40+2"}}])
    assert done.last["type"] == "done"
    assert "42" in done.of("tool_result")[0]["content"]
    await stage.goes_on(waiting.session_id)


ODD_TEXTS = {
    "NUL": "a\x00b",
    "half a pair": "a\ud83db",
    "right to left": "\u202eabc",
    "emoji": "👩‍👩‍👧",
}


@pytest.mark.req("L25", "EXEC-20")
@pytest.mark.parametrize("name", ODD_TEXTS)
@pytest.mark.parametrize("kind", ["reject", "respond", "edit"])
async def test_odd_text_in_a_decision_harms_nothing(stage: Stage, name: str, kind: str) -> None:
    waiting = await waiting_at(stage, f"odd {name} {kind}")
    text = ODD_TEXTS[name]
    said = {"args": {"expression": text}} if kind == "edit" else {"message": text}
    body = json.dumps(
        {
            "session_id": waiting.session_id,
            "interrupt_token": waiting.last["interrupt_token"],
            "decisions": [{"tool_call_id": "g", "type": kind} | said],
        }
    )
    answered = await stage.client.post(
        "/api/chat/resume", content=body, headers={"content-type": "application/json"}
    )
    assert answered.status_code in (200, 422)
    if answered.status_code == 422:
        await stage.resume(waiting, decisions=[{"tool_call_id": "g", "type": "reject"}])
    kept = results(await history(stage, waiting.session_id))
    assert kept["g"] in ("denied", "completed", "failed")
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-20", "H06")
@pytest.mark.parametrize("message", ["", "  ", "x" * 20_001, "x" * 2_000_000])
async def test_a_response_that_says_nothing_or_too_much_is_refused(
    stage: Stage, message: str
) -> None:
    waiting = await waiting_at(stage, f"respond {len(message)}")
    decision = {"tool_call_id": "g", "type": "respond", "message": message}
    assert (await stage.resume(waiting, decisions=[decision])).status in (413, 422)
    fits = await stage.resume(waiting, decisions=[decision | {"message": "y" * 20_000}])
    assert fits.last["type"] == "done"
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-20", "H05")
async def test_a_blank_reason_is_none(stage: Stage) -> None:
    waiting = await waiting_at(stage, "blank reason")
    done = await stage.resume(
        waiting, decisions=[{"tool_call_id": "g", "type": "reject", "message": ""}]
    )
    assert done.status == 200
    assert results(await history(stage, waiting.session_id)) == {"g": "denied"}


@pytest.mark.req("EXEC-20", "H03", "H05")
async def test_of_a_crowd_of_gated_calls_all_that_are_asked_about_can_be_decided(
    stage: Stage,
) -> None:
    asked = [("calculate", {"expression": f"{n}+1"}, f"g{n}") for n in range(210)]
    waiting = await waiting_at(stage, "crowd", *asked)
    assert len(waiting.last["tool_approval"]["calls"]) == 200
    decisions = [
        {"tool_call_id": f"g{n}", "type": "approve" if n % 2 else "reject"} for n in range(200)
    ]
    done = await stage.resume(waiting, decisions=decisions[::-1])
    assert done.status == 200, done.body
    kept = results(await history(stage, waiting.session_id))
    assert list(kept.values()) == ["denied", "completed"] * 100 + ["failed"] * 10
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-21", "CHAT-08", "H01", "D06")
async def test_approving_twice_and_then_cancelling_runs_the_call_once(stage: Stage) -> None:
    waiting = await waiting_at(stage, "twice")
    decisions = [{"tool_call_id": "g", "type": "approve"}]
    first, second = await asyncio.gather(
        stage.resume(waiting, decisions=decisions), stage.resume(waiting, decisions=decisions)
    )
    assert sorted([first.status, second.status]) == [200, 409]
    assert await stage.cancel(waiting.run_id) == 409
    assert results(await history(stage, waiting.session_id)) == {"g": "completed"}
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-21", "CHAT-08", "D06", "H01")
@pytest.mark.parametrize("attempt", range(4))
async def test_a_cancel_beside_an_approval_leaves_one_result(stage: Stage, attempt: int) -> None:
    waiting = await waiting_at(stage, f"race {attempt}")
    decisions = [{"tool_call_id": "g", "type": "approve"}]
    answered, cancelled = await asyncio.gather(
        stage.resume(waiting, decisions=decisions), stage.cancel(waiting.run_id)
    )
    assert answered.status in (200, 409)
    assert cancelled in (202, 409)
    if answered.status == 200:
        assert answered.last["type"] == "done"
    kept = results(await history(stage, waiting.session_id))
    assert kept["g"] in ("completed", "cancelled")
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-20", "H03", "H04")
async def test_a_call_that_was_not_asked_about_cannot_be_decided(stage: Stage) -> None:
    waiting = await waiting_at(stage, "foreign", ("calculate", GATED, "g"), ("now", {}, "free"))
    for call_id in ("free", "G", "", "g "):
        decisions = [{"tool_call_id": call_id, "type": "approve"}]
        assert (await stage.resume(waiting, decisions=decisions)).status == 422
    done = await stage.resume(waiting, decisions=[{"tool_call_id": "g", "type": "approve"}])
    assert done.last["type"] == "done"


@pytest.mark.req("EXEC-07", "EXEC-08", "EXEC-20")
async def test_approval_question_and_plan_of_one_turn_are_asked_one_after_another(
    stage: Stage,
) -> None:
    waiting = await waiting_at(
        stage,
        "all three",
        ("request_plan_approval", {"plan": "the plan"}, "p"),
        ("ask_user", {"questions": [{"question": "Why?"}]}, "q"),
        ("calculate", GATED, "g"),
        ("now", {}, "free"),
    )
    asked = await stage.resume(waiting, decisions=[{"tool_call_id": "g", "type": "approve"}])
    assert asked.last["ask_user"]["questions"][0]["question"] == "Why?"
    assert asked.of("tool_result") == []
    planned = await stage.resume(asked, answers=["because"])
    assert planned.last["plan_approval"] == {"plan": "the plan"}
    assert planned.of("tool_result") == []
    done = await stage.resume(planned, type="edit", plan="a better plan")
    assert done.last["type"] == "done"
    assert set(results(await history(stage, done.session_id)).values()) == {"completed"}
    told = {
        m["tool_call_id"]: m["content"] for m in stage.requests[-1].messages if "tool" in m["role"]
    }
    assert list(told) == ["p", "q", "g", "free"]
    assert "a better plan" in told["p"]
    assert "because" in told["q"]
    await stage.goes_on(done.session_id)


@pytest.mark.req("EXEC-08", "EXEC-22", "D06")
async def test_a_run_cancelled_between_two_questions_closes_every_call(stage: Stage) -> None:
    waiting = await waiting_at(
        stage,
        "between",
        ("ask_user", {"questions": [{"question": "Why?"}]}, "q"),
        ("calculate", GATED, "g"),
    )
    asked = await stage.resume(waiting, decisions=[{"tool_call_id": "g", "type": "approve"}])
    assert asked.last["type"] == "interrupt"
    assert await stage.cancel(waiting.run_id) == 202
    kept = results(await history(stage, waiting.session_id))
    assert kept == {"q": "cancelled", "g": "cancelled"}
    assert (await stage.resume(asked, answers=["late"])).status == 409
    await stage.goes_on(waiting.session_id)


@pytest.mark.req("EXEC-08")
async def test_the_questions_of_two_calls_are_answered_together(stage: Stage) -> None:
    three = [{"question": f"Q{n}?"} for n in range(3)]
    waiting = await waiting_at(
        stage,
        "six",
        ("ask_user", {"questions": three}, "a"),
        ("ask_user", {"questions": three}, "b"),
    )
    assert len(waiting.last["ask_user"]["questions"]) == 6
    assert (await stage.resume(waiting, answers=["1", "2", "3"])).status == 422
    done = await stage.resume(waiting, answers=[f"answer {n}" for n in range(6)])
    assert done.last["type"] == "done"
    told = {
        m["tool_call_id"]: m["content"] for m in stage.requests[-1].messages if "tool" in m["role"]
    }
    assert "answer 2" in told["a"] and "answer 3" not in told["a"]
    assert "answer 3" in told["b"]


@pytest.mark.req("EXEC-08", "H06")
async def test_as_many_questions_as_a_turn_asks_can_be_answered(stage: Stage) -> None:
    three = [{"question": f"Q{n}?"} for n in range(3)]
    asked = [("ask_user", {"questions": three}, f"a{n}") for n in range(50)]
    waiting = await waiting_at(stage, "hundred and fifty", *asked)
    count = len(waiting.last["ask_user"]["questions"])
    done = await stage.resume(waiting, answers=["x"] * count)
    assert done.status == 200, done.body
    assert done.last["type"] == "done"
    await stage.goes_on(waiting.session_id)


MALFORMED: dict[str, Any] = {
    "none": {"questions": []},
    "five": {"questions": [{"question": f"{n}?"} for n in range(5)]},
    "a text": {"questions": "Why?"},
    "no list": {"question": "Why?"},
    "empty question": {"questions": [{"question": ""}]},
    "blank question": {"questions": [{"question": "  \n "}]},
    "choice without options": {"questions": [{"question": "Which?", "kind": "single"}]},
    "choice of one": {"questions": [{"question": "Which?", "kind": "single", "options": ["a"]}]},
    "the same option twice": {
        "questions": [{"question": "Which?", "kind": "single", "options": ["a", "b", "a"]}]
    },
    "blank option": {
        "questions": [{"question": "Which?", "kind": "single", "options": ["a", " "]}]
    },
    "options of a text": {"questions": [{"question": "Why?", "options": ["a", "b"]}]},
    "unknown kind": {"questions": [{"question": "Why?", "kind": "slider"}]},
    "options that are numbers": {
        "questions": [{"question": "Which?", "kind": "single", "options": [1, 2]}]
    },
}


@pytest.mark.req("EXEC-08", "L14")
@pytest.mark.parametrize("name", MALFORMED)
async def test_a_question_nobody_could_answer_is_not_asked(stage: Stage, name: str) -> None:
    stage.scripted.on(f"ask {name}.", call("ask_user", MALFORMED[name], id="q"), say("Sorry."))
    reply = await stage.chat(f"ask {name}.")
    assert reply.last["type"] == "done", reply.last
    assert results(await history(stage, reply.session_id)) == {"q": "failed"}
    await stage.goes_on(reply.session_id)


@pytest.mark.req("EXEC-07", "EXEC-20")
async def test_in_plan_mode_nobody_is_asked_about_a_tool_that_may_not_run(stage: Stage) -> None:
    write = {"path": "/workspace/a.txt", "content": "x"}
    asked = [("write_file", write, "w"), ("request_plan_approval", {"plan": "write it"}, "p")]
    stage.scripted.on(
        "planned write", calls(asked), call("write_file", write, id="w2"), say("Written.")
    )
    waiting = await stage.chat("planned write", mode="plan")
    assert waiting.last["plan_approval"] == {"plan": "write it"}
    gated = await stage.resume(waiting, type="edit", plan="write it well")
    assert gated.last["tool_approval"]["calls"][0]["tool_call_id"] == "w2"
    assert "write it well" in str(stage.requests[-1].messages)
    done = await stage.resume(gated, decisions=[{"tool_call_id": "w2", "type": "approve"}])
    assert done.last["type"] == "done"
    kept = results(await history(stage, done.session_id))
    assert kept == {"w": "denied", "p": "completed", "w2": "completed"}
    await stage.goes_on(done.session_id)


@pytest.mark.req("EXEC-07", "H06")
async def test_a_plan_answered_oddly_still_waits(stage: Stage) -> None:
    waiting = await waiting_at(stage, "odd plan", ("request_plan_approval", {"plan": "do"}, "p"))
    odd: list[dict[str, Any]] = [
        {"type": "edit"},
        {"type": "edit", "plan": ""},
        {"type": "edit", "plan": "x" * 300_000},
        {"type": "approve", "plan": "another"},
        {"type": "respond", "message": "x"},
        {"decisions": [{"tool_call_id": "p", "type": "approve"}]},
        {"answers": ["yes"]},
    ]
    for answer in odd:
        assert (await stage.resume(waiting, **answer)).status in (413, 422), answer
    done = await stage.resume(waiting, type="reject", message="")
    assert done.status == 200, done.body
    assert results(await history(stage, waiting.session_id)) == {"p": "denied"}


@pytest.mark.req("EXEC-07", "L14")
@pytest.mark.parametrize("plan", ["", " \n", ["step"], None])
async def test_a_plan_that_says_nothing_is_not_asked_about(stage: Stage, plan: Any) -> None:
    word = f"plan {plan!r}."
    stage.scripted.on(word, call("request_plan_approval", {"plan": plan}, id="p"), say("Sorry."))
    reply = await stage.chat(word)
    assert reply.last["type"] == "done", reply.last
    assert results(await history(stage, reply.session_id)) == {"p": "failed"}
