"""One retry layer: before the first shown text only, never longer than stated (MODEL-07, L19)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime

import pytest
from langchain_core.messages import HumanMessage

from core import errors
from core.clock import FakeClock
from providers.retry import Retries
from tests.providers.conftest import MakeModel, Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import (
    Turn,
    call,
    cut,
    error,
    frame,
    raw_frames,
    refuse_connection,
    say,
)

ASK = [HumanMessage("hello")]


class JumpingClock(FakeClock):
    """Remembers every wait and lets it pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await self.advance(seconds)


@pytest.fixture
def jumping() -> JumpingClock:
    return JumpingClock()


def limited(after: str) -> Turn:
    return error(429, headers={"retry-after": after})


@pytest.mark.req("L19", "MODEL-07")
async def test_retry_after_is_the_least_that_is_waited(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    scripted.play(limited("3"), limited("3"), say("there"))
    model = make_model(jumping, openai_max_retries=8)
    assert (await model.ask(ASK, message_id="m1")).content == "there"
    assert len(scripted.requests) == 3
    assert len(jumping.waits) == 2 and all(3 < wait < 5 for wait in jumping.waits)


@pytest.mark.req("L19")
async def test_a_date_in_retry_after_is_understood(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    until = jumping.now() + timedelta(seconds=7)
    scripted.play(limited(format_datetime(until, usegmt=True)), say("there"))
    await make_model(jumping, openai_max_retries=1).ask(ASK, message_id="m1")
    assert 7 < jumping.waits[0] < 8


@pytest.mark.req("L19")
@pytest.mark.parametrize("junk", ["-1", "soon", "nan", "inf", "Tue, 99 Foo 2026", ""])
async def test_junk_in_retry_after_falls_back_to_backoff(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock, junk: str
) -> None:
    scripted.play(limited(junk), limited(junk), say("there"))
    await make_model(jumping, openai_max_retries=2).ask(ASK, message_id="m1")
    assert len(jumping.waits) == 2 and all(0 < wait <= 1 for wait in jumping.waits)


@pytest.mark.req("L19")
async def test_too_long_a_wait_ends_the_call_and_says_when_to_try_again(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    scripted.play(limited("3600"))
    with pytest.raises(errors.ProviderRateLimited, match="try again after 3600 s") as caught:
        await make_model(jumping, openai_max_retries=8).ask(ASK, message_id="m1")
    assert caught.value.retry_after == 3600
    assert jumping.waits == [] and len(scripted.requests) == 1


@pytest.mark.req("L19")
async def test_a_fan_out_spreads_and_stays_within_its_bound(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    scripted.default = limited("3")
    model = make_model(jumping, openai_max_retries=2)
    asked = [model.ask(ASK, message_id=f"m{number}") for number in range(10)]
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(one) for one in ended} == {errors.ProviderRateLimited}
    assert len(scripted.requests) == 10 * 3
    assert len(set(jumping.waits)) == 20, "every wait has a jitter of its own"


@pytest.mark.req("MODEL-07", "L08", "L10")
@pytest.mark.parametrize(
    "failing",
    [
        error(500),
        error(503, "upstream connect error"),
        error(408),
        refuse_connection(),
        cut(call("add", {"a": 1}), 2),
        cut(say("text"), 1, reset=True),
        raw_frames([{"choices": [], "error": {"message": "busy", "code": 503}}], done=True),
    ],
    ids=["500", "503 text", "408", "reset", "cut call", "cut before text", "error in stream"],
)
async def test_failures_before_any_text_are_tried_again(
    scripted: ScriptedServer,
    make_model: MakeModel,
    jumping: JumpingClock,
    shown: Shown,
    failing: Turn,
) -> None:
    scripted.play(failing, failing, say("there"))
    model = make_model(jumping, openai_max_retries=2)
    assert (await model.ask(ASK, message_id="m1", sink=shown)).content == "there"
    assert shown.joined() == "there" and len(scripted.requests) == 3


@pytest.mark.req("MODEL-07")
@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
async def test_nothing_that_was_shown_is_repeated(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock, shown: Shown, kind: str
) -> None:
    scripted.play(raw_frames([frame({kind: "shown"})]), say("never"))
    with pytest.raises(errors.ProviderStreamCut):
        await make_model(jumping, openai_max_retries=8).ask(ASK, message_id="m1", sink=shown)
    assert len(scripted.requests) == 1 and jumping.waits == []


@pytest.mark.req("MODEL-07")
async def test_a_cut_answer_that_nobody_watches_is_tried_again(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    scripted.play(cut(say("half of it"), 2), say("whole"))
    model = make_model(jumping, openai_max_retries=1)
    assert (await model.ask(ASK, message_id="m1")).content == "whole"


@pytest.mark.req("MODEL-07")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_refusals_are_not_tried_again(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock, status: int
) -> None:
    scripted.play(say("the connection is known now"))
    model = make_model(jumping, openai_max_retries=8)
    await model.ask(ASK, message_id="m0")
    scripted.play(error(status))
    with pytest.raises(errors.ProviderError):
        await model.ask(ASK, message_id="m1")
    assert len(scripted.requests) == 2 and jumping.waits == []


@pytest.mark.req("MODEL-07")
async def test_the_last_failure_says_how_often_it_was_tried(
    scripted: ScriptedServer, make_model: MakeModel, jumping: JumpingClock
) -> None:
    scripted.default = error(502)
    with pytest.raises(errors.ProviderOverloaded, match=r"\(4 tries\)") as caught:
        await make_model(jumping, openai_max_retries=3).ask(ASK, message_id="m1")
    assert caught.value.details["tries"] == 4 and caught.value.details["model"] == "scripted"
    assert len(scripted.requests) == 4


@pytest.mark.req("MODEL-07")
def test_backoff_doubles_up_to_a_cap() -> None:
    policy = Retries(most=50, max_wait=60)
    waits = [policy.wait(errors.ProviderOverloaded(), tries) or 0 for tries in range(1, 12)]
    assert 0.25 <= waits[0] <= 0.5 and 2 <= waits[3] <= 4
    assert all(10 <= wait <= 20 for wait in waits[6:])
    assert policy.wait(errors.ProviderOverloaded(), 51) is None
