"""A run watched from a script: typed events, one use, left early, answered (BATCH-03)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from core import events
from core.errors import Invalid, SessionBusy, WrongUse
from core.types import RunStatus
from runtime import Execution, ResumeDecision, admit, build_execution, execute, resume_value
from tests.batch.conftest import Desk
from tests.support.postgres import execute as query
from tests.support.scripted_turns import Gate, call, calls, hold, say

pytestmark = pytest.mark.req("BATCH-03")

WRITE = ("write_file", {"path": "/workspace/a.txt", "content": "one"})


async def watched(execution: Execution) -> list[events.Event]:
    stream: AsyncGenerator[events.Event] = execution.events()
    async with asyncio.timeout(20), aclosing(stream) as given:
        return [event async for event in given]


async def test_events_come_typed_and_end_with_the_run(desk: Desk):
    desk.scripted.on("sum", call("calculate", {"expression": "2*3"}), say("It is 6."))
    async with desk.environment():
        execution = build_execution(await admit(user_name="ann", message="sum"))
        seen = await watched(execution)
        assert execution.result.output == "It is 6."
    kinds = [type(event) for event in seen]
    assert kinds[:2] == [events.UserMessage, events.AgentStart]
    assert kinds[-3:] == [events.Citations, events.AgentDone, events.Done]
    said = "".join(event.content for event in seen if isinstance(event, events.Token))
    assert said == "It is 6."
    (result,) = [event for event in seen if isinstance(event, events.ToolResult)]
    assert (result.tool, result.error) == ("calculate", None)


async def test_a_question_is_answered_for_each_call_and_only_what_came_after_is_given(desk: Desk):
    other = ("write_file", {"path": "/workspace/b.txt", "content": "two"})
    desk.scripted.on("write", calls([(*WRITE, "call_a"), (*other, "call_b")]), say("done"))
    async with desk.environment():
        first = build_execution(await admit(user_name="ann", message="write"))
        question = (await watched(first))[-1]
        assert isinstance(question, events.Interrupt)
        assert question.tool_approval is not None
        one, two = question.tool_approval.calls
        assert first.result.interrupts[0]["interrupt_token"] == question.interrupt_token
        changed = {"path": "/workspace/c.txt", "content": "three"}
        decisions = [
            ResumeDecision.reject(two.tool_call_id, message="not this one"),
            ResumeDecision.edit(one.tool_call_id, args=changed),
        ]
        admitted = await admit(
            user_name="ann",
            session_id=first.session_id,
            interrupt_token=question.interrupt_token,
            resume=resume_value(decisions),
        )
        then = build_execution(admitted)
        seen = await watched(then)
    assert isinstance(seen[0], events.InterruptResolved)
    assert isinstance(seen[-1], events.Done)
    assert then.run_id == first.run_id
    assert [path.name for path in desk.folder.rglob("*.txt")] == ["c.txt"]


async def test_an_answer_that_does_not_fit_changes_nothing(desk: Desk):
    desk.scripted.on("write", call(*WRITE), say("done"))
    async with desk.environment():
        waits = await execute(user_name="ann", message="write")
        token = waits.interrupts[0]["interrupt_token"]
        where = {"user_name": "ann", "session_id": waits.session_id, "interrupt_token": token}
        for wrong in (resume_value(answers=["blue"]), resume_value(ResumeDecision.approve("no"))):
            with pytest.raises(Invalid):
                await admit(**where, resume=wrong)
        done = await execute(**where, resume=resume_value([ResumeDecision.reject()]))
    assert done.status == "success"


async def test_questions_and_plans_are_answered_in_their_own_form(desk: Desk):
    asked = {"questions": [{"question": "Which?", "kind": "single", "options": ["a", "b"]}]}
    desk.scripted.on("ask", call("ask_user", asked), say("thanks"))
    desk.scripted.on("plan", call("request_plan_approval", {"plan": "1. go"}), say("gone"))
    answers = {
        "ask": resume_value(answers=["b"]),
        "plan": resume_value(plan=ResumeDecision.edit(plan="1. wait")),
    }
    async with desk.environment():
        for message, answer in answers.items():
            waits = await execute(user_name="ann", message=message)
            done = await execute(
                user_name="ann",
                session_id=waits.session_id,
                interrupt_token=waits.interrupts[0]["interrupt_token"],
                resume=answer,
            )
            assert (waits.interrupts[0]["kind"][:3], done.status) == (
                {"ask": "ask", "plan": "pla"}[message],
                "success",
            )


def test_the_four_decisions_have_the_form_of_the_api():
    decisions = [
        ResumeDecision.approve("1", always="session"),
        ResumeDecision.edit("2", args={"a": 1}),
        ResumeDecision.reject("3"),
        ResumeDecision.respond("4", message="it is 5"),
    ]
    assert resume_value(decisions) == {
        "decisions": [
            {"type": "approve", "tool_call_id": "1", "always": "session"},
            {"type": "edit", "tool_call_id": "2", "args": {"a": 1}},
            {"type": "reject", "tool_call_id": "3"},
            {"type": "respond", "tool_call_id": "4", "message": "it is 5"},
        ]
    }
    assert resume_value(answers=["a", ["b", "c"]]) == {"answers": ["a", ["b", "c"]]}
    assert resume_value(plan=ResumeDecision.approve()) == {"type": "approve"}


def test_an_answer_is_exactly_one_of_the_three():
    with pytest.raises(Invalid, match="not 0"):
        resume_value()
    with pytest.raises(Invalid, match="not 2"):
        resume_value(ResumeDecision.approve(), answers=["a"])
    with pytest.raises(Invalid, match="a list"):
        resume_value(answers="blue")


async def test_an_execution_goes_once_whichever_way(desk: Desk):
    async with desk.environment():
        admitted = await admit(user_name="ann", message="once")
        execution = build_execution(admitted)
        with pytest.raises(WrongUse, match="read to their end"):
            _ = execution.result
        assert (await execution.run()).status == "success"
        with pytest.raises(WrongUse, match="used already"):
            await execution.run()
        with pytest.raises(WrongUse, match="used already"):
            await watched(build_execution(admitted))
    assert desk.asked("once") == 1


async def test_leaving_the_events_early_cancels_the_run_and_frees_the_session(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never said to the end"), gate, after=3))
    async with desk.environment() as environment:
        execution = build_execution(await admit(user_name="ann", message="long"))
        async with asyncio.timeout(20), aclosing(execution.events()) as stream:
            async for event in stream:
                if isinstance(event, events.Token):
                    break
        assert (await desk.run(execution.run_id)).status is RunStatus.CANCELLED
        assert list(environment.opened.carrier.under_way) == []
        next_one = await execute(user_name="ann", message="next", session_id=execution.session_id)
    assert next_one.status == "success"


async def test_a_stream_that_is_closed_before_its_first_event_or_never_begun_leaves_nothing(
    desk: Desk,
):
    async with desk.environment():
        begun = build_execution(await admit(user_name="ann", message="one"))
        stream = begun.events()
        await anext(stream)
        await stream.aclose()
        async with await admit(user_name="ann", message="two") as admitted:
            with pytest.raises(SessionBusy):
                await admit(user_name="ann", message="2b", session_id=admitted.session_id)
        with pytest.raises(WrongUse, match="used already"):
            await build_execution(admitted).run()
        states = query(desk.url, "SELECT status FROM runs")
    assert states == [("cancelled",), ("cancelled",)]


async def test_events_that_outlive_their_environment_can_still_be_closed(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never heard"), gate, after=1))
    async with desk.environment():
        admitted = await admit(user_name="ann", message="long")
        events = build_execution(admitted).events()
        await anext(events)
    await events.aclose()
    gate.open()
    assert (await desk.run(admitted.run_id)).status == "cancelled"


async def test_an_admission_outlives_the_look_for_strays_until_it_is_used(desk: Desk):
    async with desk.environment() as environment:
        admitted = await admit(user_name="ann", message="later")
        for _ in range(3):
            await environment.opened.runtime.strays.look()
        assert (await desk.run(admitted.run_id)).status is RunStatus.RUNNING
        assert (await build_execution(admitted).run()).status == "success"


async def test_a_stray_is_cancelled_where_its_admission_was_reported_as_refused(desk: Desk):
    async with desk.environment() as environment:
        admitted = await admit(user_name="ann", message="lost reply")
        environment.disown(admitted.run_id)
        environment.opened.runtime.engine.expected.discard(admitted.run_id)
        for _ in range(2):
            await environment.opened.runtime.strays.look()
        assert (await desk.run(admitted.run_id)).status is RunStatus.CANCELLED
    assert desk.asked("lost reply") == 0
