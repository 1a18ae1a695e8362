"""Middleware and tools that ask people themselves, and middleware that does odd things (EXT-07)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.stage import Stage, house_of
from tests.scenarios.whole import history, shown, texts
from tests.support import asking_extension
from tests.support.app import Reply, Served
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

pytestmark = pytest.mark.req("EXT-07")


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """One product with an agent for each middleware."""
    with house_of(asking_extension, postgres, provider) as served:
        yield served


def entered() -> dict[str, int]:
    """Return what the extension counts, in the module that the product loaded."""
    return sys.modules["extensions.asking.extension"].ENTERED


def question(reply: Reply) -> str:
    """Return the one question that a stream ended with."""
    assert reply.last["type"] == "interrupt", reply.last
    (one,) = reply.last["ask_user"]["questions"]
    return one["question"]


def previews(messages: list[dict[str, Any]]) -> list[str]:
    """Return what the calls of a history gave."""
    parts = [part for message in messages for part in message["parts"]]
    return [part["result"]["preview"] for part in parts if part["type"] == "tool_call"]


async def answered(stage: Stage, reply: Reply, text: str) -> Reply:
    return await stage.resume(reply, answers=[text])


@pytest.mark.parametrize(("answer", "said"), [("yes", "I begin."), ("no", "Then not.")])
async def test_a_hook_before_the_model_asks_and_goes_on_with_the_answer(
    stage: Stage, answer: str, said: str
) -> None:
    stage.scripted.on("please begin", say("I begin."))
    asked = await stage.chat("please begin", agent="asks_before")
    assert question(asked) == "Shall I begin?"
    reply = await answered(stage, asked, answer)
    assert (reply.last["type"], shown(reply)) == ("done", said)
    assert texts(await history(stage, reply.session_id))[-1] == ("assistant", said)
    await stage.goes_on_as(reply, "asks_before")


async def test_a_hook_after_the_model_asks_about_the_turn_with_data(stage: Stage) -> None:
    stage.scripted.on("propose", say("A proposal."))
    asked = await stage.chat("propose", agent="asks_after")
    assert '"said": "A proposal."' in question(asked)
    reply = await answered(stage, asked, '"keep"')
    assert reply.last["type"] == "done"
    assert texts(await history(stage, reply.session_id))[-1] == (
        "assistant",
        "A proposal. (keep)",
    )
    assert len(stage.requests) == 1


@pytest.mark.parametrize(
    ("answer", "result", "done"), [('{"go": true}', "sent a", 1), ("no", "not now", 0)]
)
async def test_what_stands_around_a_tool_asks_before_it_is_carried_out(
    stage: Stage, answer: str, result: str, done: int
) -> None:
    before = entered()["sent"]
    stage.scripted.on("send around", call("send", {"text": "a"}, id="c1"), say("Over."))
    asked = await stage.chat("send around", agent="asks_around")
    assert '{"tool": "send"}' in question(asked)
    assert entered()["sent"] == before
    reply = await answered(stage, asked, answer)
    assert reply.last["type"] == "done"
    assert entered()["sent"] == before + done
    (only,) = previews(await history(stage, reply.session_id))
    assert result in only


async def test_two_calls_side_by_side_are_asked_about_one_after_the_other(stage: Stage) -> None:
    before = entered()["sent"]
    stage.scripted.on(
        "send two",
        calls([("send", {"text": "a"}, "c1"), ("send", {"text": "b"}, "c2")]),
        say("Both."),
    )
    first = await stage.chat("send two", agent="asks_around")
    second = await answered(stage, first, '{"go": true}')
    assert question(second)
    reply = await answered(stage, second, '{"go": true}')
    assert reply.last["type"] == "done"
    assert entered()["sent"] == before + 2


@pytest.mark.parametrize(("answer", "said"), [("yes", "Asked."), ("no", "Unasked.")])
async def test_what_stands_around_the_model_asks_before_it_is_asked(
    stage: Stage, answer: str, said: str
) -> None:
    stage.scripted.on("ask around", say("Asked."))
    asked = await stage.chat("ask around", agent="asks_around_model")
    assert question(asked) == "Ask the model?"
    assert stage.requests == []
    reply = await answered(stage, asked, answer)
    assert texts(await history(stage, reply.session_id))[-1] == ("assistant", said)


async def test_a_tool_that_asks_itself_goes_on_with_the_answer(stage: Stage) -> None:
    stage.scripted.on("be careful", call("careful", {"text": "it"}, id="c1"), say("Fine."))
    asked = await stage.chat("be careful", agent="plain")
    assert question(asked) == "Really it?"
    reply = await answered(stage, asked, "sure")
    assert reply.last["type"] == "done"
    (only,) = previews(await history(stage, reply.session_id))
    assert "it: sure" in only


async def test_a_turn_in_the_models_place_may_call_tools(stage: Stage) -> None:
    before = entered()["sent"]
    stage.scripted.on("on its own", say("never"), say("It is sent."))
    reply = await stage.chat("on its own", agent="calls_itself")
    assert (reply.last["type"], shown(reply)) == ("done", "It is sent."), reply.last
    assert entered()["sent"] == before + 1
    (only,) = previews(await history(stage, reply.session_id))
    assert "sent x" in only


async def test_a_turn_that_is_taken_back_leaves_what_stands_in_its_place(stage: Stage) -> None:
    stage.scripted.on("take it back", say("Never seen."))
    reply = await stage.chat("take it back", agent="takes_back")
    assert reply.last["type"] == "done", reply.last
    assert shown(reply) == "Something else."
    assert texts(await history(stage, reply.session_id)) == [
        ("user", "take it back"),
        ("assistant", "Something else."),
    ]
    await stage.goes_on_as(reply, "takes_back")
    assert "Never seen." not in str(stage.requests[-1].messages)


async def test_a_middleware_that_wipes_the_conversation_leaves_a_usable_session(
    stage: Stage,
) -> None:
    stage.scripted.on("wipe it", say("All gone."))
    reply = await stage.chat("wipe it", agent="wipes")
    assert reply.last["type"] in ("done", "error"), reply.last
    if reply.last["type"] == "error":
        assert reply.last["code"] == "middleware_failed"
    await stage.goes_on_as(reply, "plain")


async def test_what_the_database_refuses_is_replaced_in_what_a_middleware_writes(
    stage: Stage,
) -> None:
    stage.scripted.on("be dirty", say("Clean"))
    reply = await stage.chat("be dirty", agent="dirty")
    assert reply.last["type"] == "done", reply.last
    assert texts(await history(stage, reply.session_id))[-1][1].startswith("Clean ")
    await stage.goes_on_as(reply, "dirty")


@pytest.mark.req("EXEC-22")
async def test_the_beginning_and_the_end_of_an_agent_come_once_with_a_question_between(
    stage: Stage,
) -> None:
    before = dict(entered())
    stage.scripted.on("once careful", call("careful", {"text": "it"}, id="c1"), say("Fine."))
    asked = await stage.chat("once careful", agent="once")
    assert (entered()["once"], entered()["left"]) == (before["once"] + 1, before["left"])
    await answered(stage, asked, "sure")
    assert (entered()["once"], entered()["left"]) == (before["once"] + 1, before["left"] + 1)


@pytest.mark.req("EXEC-06")
async def test_a_review_and_middleware_work_together(stage: Stage) -> None:
    before = dict(entered())
    stage.scripted.on("You check whether", say('{"verdict": "complete", "note": ""}'))
    stage.scripted.on("check this", say("Checked."))
    reply = await stage.chat("check this", agent="checked")
    assert (reply.last["type"], shown(reply)) == ("done", "Checked."), reply.last
    assert entered()["left"] == before["left"] + 1
    assert len(stage.requests) == 2
