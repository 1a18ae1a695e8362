"""Where a run stops by itself, and that it can be gone on with."""

from __future__ import annotations

import asyncio
import json

import pytest

from core.clock import FakeClock
from core.context import Limits
from core.errors import ModelCallLimit, NoProgress, StepLimit, TimeBudget, TokenBudget
from core.tooling import ToolContext, define_tool
from tests.support.scripted_turns import call, calls, say

sent: list[str] = []


@pytest.fixture(autouse=True)
def _no_mail():
    sent.clear()


@define_tool(side_effect="external")
async def send_mail(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return f"sent {len(sent)}"


@define_tool()
async def look() -> str:
    """Look at the same thing."""
    sent.append("look")
    return "nothing new"


def mails(seen):
    return call("send_mail", {"to": f"{seen.round}@example.org"})


@pytest.mark.req("EXEC-09", "D07")
@pytest.mark.parametrize(("limit", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (25, 12)])
async def test_the_step_limit_ends_the_run_between_whole_steps(
    limit, expected, talk_with, scripted
):
    scripted.on("mail", mails)
    talk = talk_with(tools=[send_mail], limits=Limits(steps=limit))
    with pytest.raises(StepLimit, match="send another message to go on"):
        await talk.say("mail")
    assert len(sent) == expected
    await talk.settle()
    assert await talk.say("go on") == "echo: go on"
    assert len(sent) == expected
    assert scripted.refused == []


@pytest.mark.req("EXEC-09")
async def test_nobody_is_asked_about_calls_beyond_the_limit(talk_with, scripted):
    scripted.on("mail", mails)
    talk = talk_with(tools=[send_mail], hitl=["send_mail"], limits=Limits(steps=1))
    with pytest.raises(StepLimit):
        await talk.say("mail")
    assert talk.question is None


@pytest.mark.req("EXEC-09")
async def test_model_calls_are_limited(talk_with, scripted):
    scripted.on("mail", mails)
    talk = talk_with(tools=[send_mail], limits=Limits(model_calls=2))
    with pytest.raises(ModelCallLimit):
        await talk.say("mail")
    assert (len(scripted.requests), len(sent)) == (2, 2)


@pytest.mark.req("EXEC-09")
async def test_tokens_are_limited_also_where_they_are_estimated(talk_with, scripted):
    scripted.on("mail", lambda seen: call("send_mail", {"to": str(seen.round)}, usage=None))
    talk = talk_with(tools=[send_mail], limits=Limits(tokens=1_000))
    with pytest.raises(TokenBudget):
        await talk.say("mail")
    assert 0 < len(sent) < 5


@pytest.mark.req("EXEC-09")
async def test_wall_time_is_limited_and_a_new_run_begins_anew(talk_with, scripted):
    clock = FakeClock()

    @define_tool()
    async def work() -> str:
        """Work for a minute."""
        await clock.advance(60)
        return "done"

    scripted.on("work", call("work", {}), say("finished"))
    talk = talk_with(tools=[work], limits=Limits(seconds=50))
    talk.clock = clock
    with pytest.raises(TimeBudget):
        await talk.say("work")
    await talk.settle()
    assert await talk.say("hello") == "echo: hello"


@pytest.mark.req("EXEC-05")
async def test_an_equal_call_with_an_equal_result_is_hinted_then_refused(talk_with, scripted):
    scripted.on("look", *[call("look", {}, id=f"k{n}") for n in range(5)], say("done"))
    talk = talk_with(tools=[look])
    assert await talk.say("look") == "done"
    bodies = [json.loads(result.text) for result in (await talk.results()).values()]
    assert [body["status"] for body in bodies] == ["completed"] * 3 + ["denied"] * 2
    assert ["hint" in body["meta"] for body in bodies] == [False, True, True, False, False]
    assert sent == ["look"] * 3


@pytest.mark.req("EXEC-05")
async def test_an_equal_call_with_new_results_is_let_through(talk_with, scripted):
    scripted.on("mail", *[call("send_mail", {"to": "x"})] * 6, say("done"))
    talk = talk_with(tools=[send_mail])
    assert await talk.say("mail") == "done"
    assert len(sent) == 6


@pytest.mark.req("EXEC-05")
async def test_eight_batches_without_anything_new_end_the_run(talk_with, scripted):
    @define_tool()
    async def fails(number: int) -> None:
        """Fail."""
        raise ValueError(number)

    scripted.on("try", lambda seen: call("fails", {"number": seen.round}))
    talk = talk_with(tools=[fails])
    with pytest.raises(NoProgress, match="nothing new"):
        await talk.say("try")
    assert len(scripted.requests) == 8
    await talk.settle()
    assert await talk.say("go on") == "echo: go on"
    assert scripted.refused == []


@pytest.mark.req("EXEC-05")
async def test_a_new_result_starts_the_count_anew(talk_with, scripted):
    turns = [call("look", {})] * 2 + [call("send_mail", {"to": "x"})]
    scripted.on("try", *turns * 4, say("done"))
    talk = talk_with(tools=[look, send_mail], limits=Limits(stall_steps=3, repeat_refuse=99))
    assert await talk.say("try") == "done"


@pytest.mark.req("D06")
async def test_a_cancel_keeps_finished_results_and_closes_the_others(talk_with, scripted):
    started = asyncio.Event()

    @define_tool()
    async def slow(ctx: ToolContext) -> str:
        """Take long."""
        started.set()
        await asyncio.Event().wait()
        return ctx.agent

    asked = [("send_mail", {"to": "x"}, "k1"), ("slow", {}, "k2"), ("slow", {}, "k3")]
    scripted.on("go", calls(asked), say("done"))
    talk = talk_with(tools=[slow, send_mail])
    run = asyncio.create_task(talk.say("go"))
    await asyncio.wait_for(started.wait(), 5)
    while not any("run_tool" in update for update in talk.updates):
        await asyncio.wait({run}, timeout=0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await talk.settle()
    results = await talk.results()
    statuses = {key: result.artifact["status"] for key, result in results.items()}
    assert statuses == {"k1": "completed", "k2": "cancelled", "k3": "cancelled"}
    assert await talk.say("hello?") == "echo: hello?"
    assert scripted.refused == []
    assert sent == ["x"]


@pytest.mark.req("EXEC-06")
async def test_review_sends_the_agent_back_and_then_lets_it_end(talk_with, scripted):
    verdicts = iter(['{"verdict": "continue", "note": "The sum is missing."}', "it is complete"])
    scripted.on(
        lambda seen: "Is the work complete?" in seen.last_user, lambda _seen: say(next(verdicts))
    )
    scripted.on("sum is missing", say("It is 5."))
    scripted.on("sum", say("Let me think."))
    talk = talk_with(agent={"review": True})
    assert await talk.say("sum") == "It is 5."
    assert [purpose for purpose, _ in talk.seen.usage] == ["turn", "review", "turn", "review"]
    assert "tools" not in scripted.requests[1].body
    assert set(talk.seen.text.values()) == {"Let me think.", "It is 5."}
    assert scripted.refused == []


@pytest.mark.req("EXEC-06")
async def test_review_that_finds_the_work_blocked_asks_the_user(talk_with, scripted):
    scripted.on(
        lambda seen: "Is the work complete?" in seen.last_user,
        lambda seen: say(
            '{"verdict": "complete", "note": ""}'
            if "Berlin" in seen.last_user
            else 'So: {"verdict": "blocked", "note": "Which city?"}'
        ),
    )
    talk = talk_with(agent={"review": True})
    await talk.say("weather")
    assert talk.question.value["ask_user"]["questions"][0]["question"] == "Which city?"
    assert await talk.answer(answers=["Berlin"]) == "echo: Berlin"
    assert [p for p, _ in talk.seen.usage].count("review") == 2
    assert scripted.refused == []


@pytest.mark.req("EXEC-06")
async def test_review_sends_back_a_bounded_number_of_times(talk_with, scripted):
    scripted.on("Is the work complete?", say('{"verdict": "continue", "note": "More."}'))
    talk = talk_with(agent={"review": True, "limits": {"reviews": 2}}, limits=Limits(reviews=2))
    await talk.say("go")
    assert [p for p, _ in talk.seen.usage].count("review") == 2
    assert [p for p, _ in talk.seen.usage].count("turn") == 3
