"""Approvals: every decision meets its own call, once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.scenarios.talk import Talk
from tests.scenarios.whole import card, history, results, types
from tests.support.app import Reply
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import calls, say

THREE = [
    ("now", {}, "free1"),
    ("calculate", {"expression": "2+3"}, "gated"),
    ("list_files", {"path": "/workspace/"}, "free2"),
]


async def paused(served: Talk, scripted: ScriptedServer, asked: Any = None) -> Reply:
    """Bring a run to its approval card."""
    scripted.on("go", calls(asked or THREE), say("The end."))
    reply = await served.chat("go")
    assert reply.last["type"] == "interrupt"
    return reply


def tool_messages(scripted: ScriptedServer) -> dict[str, str]:
    """Return what the model was told about each call."""
    sent = scripted.requests[-1].messages
    return {m["tool_call_id"]: m["content"] for m in sent if m["role"] == "tool"}


@pytest.mark.req("CHAT-09", "EXEC-20", "EXEC-22")
async def test_an_approved_call_runs_with_its_batch(served: Talk, scripted: ScriptedServer) -> None:
    waiting = await paused(served, scripted)
    [asked] = card(waiting)
    assert asked["tool_call_id"] == "gated"
    assert asked["args"] == {"expression": "2+3"}
    assert waiting.last["tool_approval"]["tool"] == "calculate"
    assert waiting.of("tool_call") == []
    done = await served.resume(waiting, decisions=[{"tool_call_id": "gated", "type": "approve"}])
    assert done.last["type"] == "done"
    assert {event["tool_call_id"] for event in done.of("tool_result")} == {
        "free1",
        "gated",
        "free2",
    }
    assert "5" in tool_messages(scripted)["gated"]
    assert types(done)[0] == "interrupt_resolved"
    assert done.frames[0].data["seq"] == waiting.last["seq"] + 1
    assert scripted.refused == []


@pytest.mark.req("EXEC-20")
async def test_an_edited_call_runs_with_the_new_arguments(
    served: Talk, scripted: ScriptedServer
) -> None:
    waiting = await paused(served, scripted)
    done = await served.resume(
        waiting,
        decisions=[{"tool_call_id": "gated", "type": "edit", "args": {"expression": "20+3"}}],
    )
    [edited] = [e for e in done.of("tool_call") if e["tool_call_id"] == "gated"]
    assert edited["args"] == {"expression": "20+3"}
    assert "23" in tool_messages(scripted)["gated"]


@pytest.mark.req("EXEC-20", "H05")
async def test_a_rejected_call_never_runs_and_the_reason_reaches_the_model(
    served: Talk, scripted: ScriptedServer
) -> None:
    waiting = await paused(served, scripted)
    done = await served.resume(
        waiting,
        decisions=[{"tool_call_id": "gated", "type": "reject", "message": "not today"}],
    )
    assert done.last["type"] == "done"
    told = tool_messages(scripted)
    assert "not today" in told["gated"]
    assert json.loads(told["gated"])["status"] == "denied"
    assert results(await history(served, done.session_id)) == {
        "free1": "completed",
        "gated": "denied",
        "free2": "completed",
    }
    assert scripted.refused == []


@pytest.mark.req("EXEC-20")
async def test_a_response_takes_the_place_of_the_result(
    served: Talk, scripted: ScriptedServer
) -> None:
    waiting = await paused(served, scripted)
    await served.resume(
        waiting,
        decisions=[{"tool_call_id": "gated", "type": "respond", "message": "It is seventeen."}],
    )
    assert "It is seventeen." in tool_messages(scripted)["gated"]


@pytest.mark.req("EXEC-20", "H03")
async def test_decisions_are_matched_by_id_in_any_order(
    served: Talk, scripted: ScriptedServer
) -> None:
    asked = [("calculate", {"expression": "1+1"}, "a"), ("calculate", {"expression": "2+2"}, "b")]
    waiting = await paused(served, scripted, asked)
    done = await served.resume(
        waiting,
        decisions=[
            {"tool_call_id": "b", "type": "reject", "message": "no"},
            {"tool_call_id": "a", "type": "approve"},
        ],
    )
    assert results(await history(served, done.session_id)) == {"a": "completed", "b": "denied"}


@pytest.mark.req("EXEC-20", "EXEC-21", "H03", "H06")
@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": [{"type": "approve"}, {"type": "reject"}]},
        {"decisions": [{"tool_call_id": "a", "type": "approve"}]},
        {"decisions": [{"tool_call_id": "a", "type": "approve"}] * 2},
        {
            "decisions": [
                {"tool_call_id": "a", "type": "yes"},
                {"tool_call_id": "b", "type": "approve"},
            ]
        },
        {
            "decisions": [
                {"tool_call_id": "a", "type": "edit", "args": {"tool": "write_file"}},
                {"tool_call_id": "b", "type": "approve"},
            ]
        },
        {
            "decisions": [
                {"tool_call_id": "a", "type": "approve", "tool": "write_file"},
                {"tool_call_id": "b", "type": "approve"},
            ]
        },
        {"decisions": "approved"},
        {"decisions": {}},
        {"decisions": None},
        {"decisions": []},
        {"answers": ["yes"]},
        {"type": "approve"},
        {},
    ],
)
async def test_a_malformed_answer_is_refused_and_the_right_one_still_works(
    served: Talk, scripted: ScriptedServer, answer: dict[str, Any]
) -> None:
    asked = [("calculate", {"expression": "1+1"}, "a"), ("calculate", {"expression": "2+2"}, "b")]
    waiting = await paused(served, scripted, asked)
    refused = await served.resume(waiting, **answer)
    assert refused.status == 422
    done = await served.resume(
        waiting,
        decisions=[
            {"tool_call_id": "a", "type": "approve"},
            {"tool_call_id": "b", "type": "approve"},
        ],
    )
    assert done.last["type"] == "done"
    assert results(await history(served, done.session_id)) == {"a": "completed", "b": "completed"}


@pytest.mark.req("EXEC-21", "H01")
async def test_of_twenty_answers_at_once_exactly_one_counts(
    served: Talk, scripted: ScriptedServer
) -> None:
    waiting = await paused(served, scripted)
    answers = [
        [{"tool_call_id": "gated", "type": "approve" if n % 2 else "reject", "message": str(n)}]
        for n in range(20)
    ]
    for answer in answers:
        if answer[0]["type"] == "approve":
            del answer[0]["message"]
    replies = await asyncio.gather(
        *(served.resume(waiting, decisions=answer) for answer in answers)
    )
    assert sorted(reply.status for reply in replies) == [200] + [409] * 19
    [won] = [n for n, reply in enumerate(replies) if reply.status == 200]
    kept = results(await history(served, waiting.session_id))
    assert kept["gated"] == ("completed" if won % 2 else "denied")
    again = await served.resume(waiting, decisions=answers[won])
    assert again.status == 409


@pytest.mark.req("EXEC-21", "H02")
async def test_a_spent_token_does_not_answer_the_next_question(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.on(
        "go",
        calls([("calculate", {"expression": "1+1"}, "first")]),
        calls([("calculate", {"expression": "2+2"}, "second")]),
        say("end"),
    )
    waiting = await served.chat("go")
    decisions = [{"tool_call_id": "first", "type": "approve"}]
    second = await served.resume(waiting, decisions=decisions)
    assert card(second)[0]["tool_call_id"] == "second"
    assert (await served.resume(waiting, decisions=decisions)).status == 409
    pending = await served.client.get(
        "/api/chat/interrupt", params={"session_id": waiting.session_id}
    )
    assert pending.json()["interrupt_token"] == second.last["interrupt_token"]


@pytest.mark.req("EXEC-22", "H07", "CHAT-12")
async def test_a_message_while_an_approval_waits_is_refused_and_harms_nothing(
    served: Talk, scripted: ScriptedServer
) -> None:
    waiting = await paused(served, scripted)
    refused = await served.chat("never mind", session_id=waiting.session_id)
    assert refused.status == 409
    done = await served.resume(waiting, decisions=[{"tool_call_id": "gated", "type": "approve"}])
    assert done.last["type"] == "done"
    assert scripted.refused == []


@pytest.mark.req("CHAT-10", "EXEC-22")
async def test_a_card_survives_a_restart(served: Talk, scripted: ScriptedServer) -> None:
    waiting = await paused(served, scripted)
    pending = await served.client.get(
        "/api/chat/interrupt", params={"session_id": waiting.session_id}
    )
    assert pending.status_code == 200
    assert pending.json()["tool_approval"] == waiting.last["tool_approval"]
    await served.resume(waiting, decisions=[{"tool_call_id": "gated", "type": "approve"}])
    pending = await served.client.get(
        "/api/chat/interrupt", params={"session_id": waiting.session_id}
    )
    assert pending.status_code == 204
