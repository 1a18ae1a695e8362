"""Approvals, questions and plans: each answered once, each call with its own decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.errors import (
    Invalid,
    NoPendingInterrupt,
    NotFound,
    RequestError,
    SessionBusy,
    StaleInterrupt,
)
from core.events import StoredEvent
from core.types import RunStatus
from runtime.commands import ResumeCommand, Submitted
from tests.runtime.conftest import Bench, Ground
from tests.support.events import snapshot_of, types_of
from tests.support.scripted_turns import call, calls, say

APPROVE = {"type": "approve"}


async def paused(ground: Ground, *turns: Any) -> tuple[Submitted, list[StoredEvent], str]:
    """Start a run that waits; return it, its events and the token."""
    ground.scripted.play(*turns)
    submitted, events = await ground.chat("please")
    assert events[-1].type == "interrupt"
    return submitted, events, events[-1].data["interrupt_token"]


async def finished(ground: Ground, submitted: Submitted, token: str, **answer: Any) -> Any:
    """Answer and read to the end."""
    return await ground.read(await ground.answer(submitted, token, **answer))


@pytest.mark.req("EXEC-20", "EXEC-21")
async def test_an_approved_call_runs_once_and_the_stream_goes_on_from_the_answer(ground: Ground):
    submitted, events, token = await paused(
        ground, call("delete", {"path": "/a"}, id="c1"), say("Done.")
    )
    assert snapshot_of(events)[-1] == {
        "type": "interrupt",
        "interrupt_token": "<token>",
        "message": events[-1].data["message"],
        "tool_approval": {
            "calls": [
                {
                    "tool_call_id": "<call>",
                    "tool": "delete",
                    "args": {"path": "/a"},
                    "reason": events[-1].data["tool_approval"]["reason"],
                    "side_effect": "write",
                    "allowed_decisions": ["approve", "edit", "reject", "respond"],
                }
            ],
            "tool": "delete",
            "args": {"path": "/a"},
            "reason": events[-1].data["tool_approval"]["reason"],
            "side_effect": "write",
        },
    }
    assert await ground.status(submitted.run_id) is RunStatus.WAITING_INPUT
    assert ground.done == []
    more = await finished(ground, submitted, token, decisions=[APPROVE | {"tool_call_id": "c1"}])
    assert types_of(more) == [
        "interrupt_resolved",
        "executing",
        "tool_call",
        "tool_result",
        "thinking",
        "token",
        "citations",
        "agent_done",
        "done",
    ]
    assert more[0].seq == events[-1].seq + 1
    assert ground.done == ["delete /a"]
    assert await ground.status(submitted.run_id) is RunStatus.SUCCESS
    assert ground.scripted.refused == []


@pytest.mark.req("EXEC-21", "H01", "P6")
async def test_of_twenty_answers_at_once_over_two_processes_exactly_one_is_taken(bench: Bench):
    ground, other = await bench.open(), await bench.open(works=False)
    submitted, _, token = await paused(
        ground, call("delete", {"path": "/a"}, id="c1"), say("Done.")
    )
    decisions = [APPROVE | {"tool_call_id": "c1"}, {"type": "reject", "tool_call_id": "c1"}]

    async def answer(number: int) -> Submitted | RequestError:
        one = (ground, other)[number % 2]
        try:
            return await one.answer(submitted, token, decisions=[decisions[number % 3 == 0]])
        except RequestError as refused:
            return refused

    outcomes = await asyncio.gather(*(answer(number) for number in range(20)))
    won = [one for one in outcomes if isinstance(one, Submitted)]
    assert len(won) == 1
    events = await ground.read(won[0])
    decided = events[0].data["decisions"]
    lost = [one for one in outcomes if isinstance(one, RequestError)]
    assert {type(one) for one in lost} == {StaleInterrupt}
    assert all(one.details["decisions"] == decided and one.details["by"] == "ann" for one in lost)
    assert ground.done == (["delete /a"] if decided[0]["type"] == "approve" else [])
    with pytest.raises(StaleInterrupt):
        await other.answer(submitted, token, decisions=[decisions[0]])


@pytest.mark.req("EXEC-21", "H02")
async def test_a_spent_token_does_not_answer_the_next_question(ground: Ground):
    submitted, _, first = await paused(
        ground,
        call("delete", {"path": "/a"}, id="c1"),
        call("delete", {"path": "/b"}, id="c2"),
        say("Done."),
    )
    answer = {"decisions": [APPROVE | {"tool_call_id": "c1"}]}
    events = await finished(ground, submitted, first, **answer)
    assert events[-1].type == "interrupt"
    with pytest.raises(StaleInterrupt):
        await ground.answer(submitted, first, **answer)
    assert ground.done == ["delete /a"]
    assert await ground.status(submitted.run_id) is RunStatus.WAITING_INPUT
    second = events[-1].data["interrupt_token"]
    await finished(ground, submitted, second, decisions=[APPROVE | {"tool_call_id": "c2"}])
    assert ground.done == ["delete /a", "delete /b"]


@pytest.mark.req("EXEC-21")
async def test_strangers_wrong_tokens_and_idle_sessions_are_refused(ground: Ground):
    submitted, _, token = await paused(ground, call("delete", {"path": "/a"}), say("Done."))
    bob = await ground.user("bob")
    with pytest.raises(NotFound):
        await ground.runs.resume(
            bob, ResumeCommand(submitted.session_id, token, {"decisions": [APPROVE]})
        )
    with pytest.raises(StaleInterrupt):
        await ground.answer(submitted, "int_other", decisions=[APPROVE])
    idle, _ = await ground.chat("hello")
    with pytest.raises(NoPendingInterrupt):
        await ground.answer(idle, token, decisions=[APPROVE])
    assert ground.done == []


@pytest.mark.req("EXEC-20", "H03")
async def test_decisions_in_another_order_still_meet_their_own_calls(ground: Ground):
    submitted, _, token = await paused(
        ground,
        calls([("delete", {"path": "/a"}, "c1"), ("post", {"text": "hi"}, "c2")]),
        say("Done."),
    )
    with pytest.raises(Invalid, match="tool_call_id"):
        await ground.answer(submitted, token, decisions=[{"type": "reject"}, APPROVE])
    await finished(
        ground,
        submitted,
        token,
        decisions=[
            {"type": "reject", "tool_call_id": "c2", "message": "not now"},
            APPROVE | {"tool_call_id": "c1"},
        ],
    )
    assert ground.done == ["delete /a"]


@pytest.mark.req("EXEC-20", "H03")
async def test_an_edit_changes_arguments_but_never_the_tool(ground: Ground):
    submitted, _, token = await paused(ground, call("post", {"text": "hi"}, id="c1"), say("Done."))
    edit = {"type": "edit", "tool_call_id": "c1", "args": {"text": "ho", "times": 2}}
    for wrong in (
        edit | {"tool": "delete"},
        edit | {"name": "delete"},
        edit | {"args": {"path": "/a"}},
        edit | {"args": {"text": "ho", "times": "many"}},
        edit | {"args": None},
        edit | {"args": "text"},
    ):
        with pytest.raises(Invalid):
            await ground.answer(submitted, token, decisions=[wrong])
    await finished(ground, submitted, token, decisions=[edit])
    assert ground.done == ["post ho 2"]
    shown = (await ground.history(submitted.session_id))[1]["parts"]
    assert shown[0]["args"] == {"text": "ho", "times": 2}


@pytest.mark.req("EXEC-20", "H05", "P10")
@pytest.mark.parametrize(
    ("decisions", "done"),
    [
        ([{"type": "reject", "tool_call_id": "c1", "message": "no"}], ["lookup k"]),
        ([{"type": "respond", "tool_call_id": "c1", "message": "it is gone"}], ["lookup k"]),
        ([APPROVE | {"tool_call_id": "c1"}], ["delete /a", "lookup k"]),
    ],
)
async def test_each_of_several_calls_gets_exactly_one_result(
    ground: Ground, decisions: list[dict[str, Any]], done: list[str]
):
    submitted, _, token = await paused(
        ground,
        calls([("delete", {"path": "/a"}, "c1"), ("lookup", {"key": "k"}, "c2")]),
        say("Done."),
    )
    assert ground.done == []
    events = await finished(ground, submitted, token, decisions=decisions)
    assert events[-1].type == "done"
    assert sorted(ground.done) == done
    assert ground.scripted.refused == []
    results = [event.data for event in events if event.type == "tool_result"]
    assert sorted(one["tool_call_id"] for one in results) == ["c1", "c2"]
    parts = (await ground.history(submitted.session_id))[1]["parts"]
    assert [part["result"]["status"] for part in parts if part["type"] == "tool_call"] == [
        "denied" if decisions[0]["type"] == "reject" else "completed",
        "completed",
    ]


MALFORMED: list[Any] = [
    {},
    None,
    "approved",
    [],
    {"decisions": None},
    {"decisions": "approve"},
    {"decisions": []},
    {"decisions": ["approve"]},
    {"decisions": [{"type": "approve", "tool_call_id": "c1"}]},
    {"decisions": [{"type": "approve", "tool_call_id": "c1"}] * 2},
    {
        "decisions": [
            {"type": "yes", "tool_call_id": "c1"},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {
        "decisions": [
            {"type": ["approve"], "tool_call_id": "c1"},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {
        "decisions": [
            {"type": "approve", "tool_call_id": "c9"},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {
        "decisions": [
            {"type": "approve", "tool_call_id": 1},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {
        "decisions": [
            {"type": "reject", "tool_call_id": "c1", "message": "x" * 10_000_000},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {
        "decisions": [
            {"type": "approve", "tool_call_id": "c1", "always": "forever"},
            {"type": "approve", "tool_call_id": "c2"},
        ]
    },
    {"decisions": [], "answers": ["x"]},
    {"answers": ["x"]},
    {"type": "approve"},
]


@pytest.mark.req("EXEC-21", "H06")
async def test_a_malformed_answer_is_refused_and_the_right_one_still_works(ground: Ground):
    submitted, _, token = await paused(
        ground,
        calls([("delete", {"path": "/a"}, "c1"), ("delete", {"path": "/b"}, "c2")]),
        say("Done."),
    )
    for wrong in MALFORMED:
        with pytest.raises(Invalid):
            await ground.runs.resume(ground.ann, ResumeCommand(submitted.session_id, token, wrong))
    assert ground.done == []
    right = [APPROVE | {"tool_call_id": "c1"}, APPROVE | {"tool_call_id": "c2"}]
    events = await finished(ground, submitted, token, decisions=right)
    assert events[-1].type == "done"
    assert sorted(ground.done) == ["delete /a", "delete /b"]


@pytest.mark.req("EXEC-22", "H07")
async def test_a_message_while_an_approval_waits_is_refused_and_the_card_stays(ground: Ground):
    submitted, events, token = await paused(
        ground, call("delete", {"path": "/a"}, id="c1"), say("Done.")
    )
    with pytest.raises(SessionBusy) as busy:
        await ground.submit("never mind", submitted.session_id)
    assert busy.value.details["status"] == "waiting_input"
    card = await ground.runs.pending_interrupt(ground.ann, submitted.session_id)
    assert card is not None
    assert card["interrupt_token"] == token
    assert card["tool_approval"] == events[-1].data["tool_approval"]
    history = await ground.history(submitted.session_id)
    assert [one["role"] for one in history] == ["user", "assistant"]


@pytest.mark.req("EXEC-22", "CHAT-08", "H07")
async def test_a_cancelled_approval_is_withdrawn_and_the_session_goes_on(ground: Ground):
    submitted, _, token = await paused(
        ground, call("delete", {"path": "/a"}, id="c1"), say("All right.")
    )
    await ground.runs.cancel(ground.ann, submitted.run_id)
    assert await ground.status(submitted.run_id) is RunStatus.CANCELLED
    assert await ground.runs.pending_interrupt(ground.ann, submitted.session_id) is None
    with pytest.raises((StaleInterrupt, NoPendingInterrupt)):
        await ground.answer(submitted, token, decisions=[APPROVE])
    replay = await ground.read(submitted)
    assert types_of(replay)[-3:] == ["interrupt_resolved", "tool_result", "done"]
    _, events = await ground.chat("never mind", submitted.session_id)
    assert events[-1].data["status"] == "success"
    assert ground.done == []
    assert ground.scripted.refused == []
    parts = (await ground.history(submitted.session_id))[1]["parts"]
    assert parts[0]["result"]["status"] == "cancelled"


@pytest.mark.req("EXEC-20")
async def test_always_allowed_tools_are_not_asked_for_again(ground: Ground):
    submitted, _, token = await paused(
        ground,
        call("delete", {"path": "/a"}, id="c1"),
        call("delete", {"path": "/b"}, id="c2"),
        say("Done."),
    )
    decision = APPROVE | {"tool_call_id": "c1", "always": "session"}
    events = await finished(ground, submitted, token, decisions=[decision])
    assert events[-1].type == "done"
    assert ground.done == ["delete /a", "delete /b"]
    ground.scripted.play(call("delete", {"path": "/c"}, id="c3"))
    _, elsewhere = await ground.chat("again, in another session")
    assert elsewhere[-1].type == "interrupt"


@pytest.mark.req("EXEC-08", "EXEC-22")
async def test_a_question_is_answered_on_another_process_after_a_restart(bench: Bench):
    first = await bench.open()
    questions = [
        {"question": "Which?", "kind": "single", "options": ["red", "blue"]},
        {"question": "Why?", "kind": "text"},
    ]
    submitted, events, token = await paused(
        first, call("ask_user", {"questions": questions}, id="q1"), say("Fine.")
    )
    await first.environment.drain()
    second = await bench.open()
    assert [one["question"] for one in events[-1].data["ask_user"]["questions"]] == [
        "Which?",
        "Why?",
    ]
    for wrong in (["red"], ["green", "so"], ["red", ""], ["red", 1], "red", [["red"], "so"]):
        with pytest.raises(Invalid):
            await second.answer(submitted, token, answers=wrong)
    more = await finished(second, submitted, token, answers=["red", "because"])
    assert more[-1].type == "done"
    asked = second.scripted.requests[-1].messages[-1]
    assert "because" in asked["content"]


@pytest.mark.req("EXEC-07")
@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        ({"type": "approve"}, "first this"),
        ({"type": "edit", "plan": "first that"}, "first that"),
        ({"type": "reject", "message": "too risky"}, "too risky"),
    ],
)
async def test_a_plan_is_approved_changed_or_rejected(
    ground: Ground, answer: dict[str, Any], seen: str
):
    submitted, events, token = await paused(
        ground, call("request_plan_approval", {"plan": "first this"}, id="p1"), say("Fine.")
    )
    assert events[-1].data["plan_approval"] == {"plan": "first this"}
    for wrong in ({"type": "edit"}, {"type": "yes"}, {"type": "approve", "plan": "x"}, {}):
        with pytest.raises(Invalid):
            await ground.answer(submitted, token, **wrong)
    more = await finished(ground, submitted, token, **answer)
    assert more[-1].type == "done"
    assert seen in ground.scripted.requests[-1].messages[-1]["content"]
