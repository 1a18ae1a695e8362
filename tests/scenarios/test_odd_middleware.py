"""Middleware made by decorators, and middleware that do odd things: one clear end each (EXT-07)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pytest

from tests.scenarios.stage import Stage, house_of
from tests.scenarios.whole import card, history, results, shown, texts
from tests.support import odd_extension
from tests.support.app import Reply, Served, frames_of
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

pytestmark = pytest.mark.req("EXT-07")


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """One product with an agent for each middleware."""
    with house_of(odd_extension, postgres, provider) as served:
        yield served


def seen() -> list[str]:
    """Return what the extension noted, in the module that the product loaded."""
    return sys.modules["extensions.odd.extension"].SEEN


async def approved(stage: Stage, reply: Reply) -> Reply:
    decisions = [{"tool_call_id": one["tool_call_id"], "type": "approve"} for one in card(reply)]
    return await stage.resume(reply, decisions=decisions)


@pytest.mark.req("EXT-11", "EXEC-22")
async def test_decorated_functions_work_over_an_approval_and_a_reload(stage: Stage) -> None:
    seen().clear()
    stage.scripted.on("decorate it", call("careful", {"text": "it"}), say("Decorated"))
    asked = await stage.chat("decorate it", agent="decorated")
    answer = await stage.client.post("/api/model/reload")
    assert answer.status_code == 200, answer.text
    reply = await approved(stage, asked)
    assert (reply.last["type"], shown(reply)) == ("done", "Decorated!"), reply.last
    turn = ["before_model", "after_model"]
    assert seen() == ["before_agent", *turn, "careful", *turn, "after_agent"]
    system = [one.messages[0]["content"] for one in stage.requests]
    assert [text.endswith("PROMPTED") for text in system] == [True, True]
    stopped = await stage.chat("stop here", agent="decorated", session_id=reply.session_id)
    assert (stopped.last["type"], shown(stopped)) == ("done", "Stopped.")


@pytest.mark.req("EXEC-23")
async def test_a_jump_to_the_tools_before_the_model_asks_for_approval_as_always(
    stage: Stage,
) -> None:
    asked = await stage.chat("tools", agent="jumps")
    assert asked.last["type"] == "interrupt", asked.last
    assert [one["tool"] for one in card(asked)] == ["careful"]
    stage.scripted.on("tools", say("Done."))
    reply = await approved(stage, asked)
    assert reply.last["type"] == "done", reply.last
    assert list(results(await history(stage, reply.session_id)).values()) == ["completed"]
    await stage.goes_on_as(reply, "jumps")


async def test_a_jump_to_the_tools_without_calls_ends_the_run(stage: Stage) -> None:
    reply = await stage.chat("no calls", agent="jumps")
    assert reply.last["code"] == "middleware_failed", reply.last
    assert "no call waits for them" in reply.last["message"]
    await stage.goes_on_as(reply, "jumps")


async def test_a_middleware_that_jumps_for_ever_uses_up_the_steps(stage: Stage) -> None:
    reply = await stage.chat("round and round", agent="jumps")
    assert reply.last["code"] == "step_limit", reply.last
    assert stage.requests == []
    await stage.goes_on_as(reply, "jumps")


async def test_calls_that_a_jump_to_the_end_leaves_open_are_closed(stage: Stage) -> None:
    reply = await stage.chat("left open", agent="jumps")
    assert (reply.last["type"], shown(reply)) == ("done", "Open."), reply.last
    # At the end of this very run, not when another one begins.
    assert [one["tool_call_id"] for one in reply.of("tool_call")] == ["own_1"]
    [result] = reply.of("tool_result")
    assert "was not carried out" in result["content"]
    assert results(await history(stage, reply.session_id)) == {"own_1": "cancelled"}
    await stage.goes_on_as(reply, "jumps")


@pytest.mark.parametrize("word", ["exit", "keyboard", "stop", "group", "cancelled", "exit inside"])
async def test_whatever_a_middleware_raises_ends_the_run_under_its_name(
    stage: Stage, word: str
) -> None:
    reply = await stage.chat(word, agent="raises")
    assert reply.last["code"] == "middleware_failed", reply.last
    assert "raises failed in" in reply.last["message"]
    assert "hunter2" not in str(reply.frames)
    await stage.goes_on_as(reply, "raises")


@pytest.mark.req("L25")
@pytest.mark.parametrize(
    ("word", "status", "told"),
    [
        ("nothing", "failed", "odd_results.wrap_tool_call gave NoneType"),
        ("goes", "failed", "gave a command that goes somewhere"),
        ("exit", "failed", "odd_results failed in wrap_tool_call (SystemExit)"),
        ("our state", "failed", "odd_results.wrap_tool_call wrote the state 'loop'"),
        ("no field", "failed", "which its state_schema lacks"),
        ("no plain state", "failed", "which cannot be kept"),
        ("no message", "failed", "odd_results.wrap_tool_call gave messages that are none"),
        ("as a dict", "completed", "by dict"),
        ("other id", "failed", "gave no result for this call"),
        ("dirty", "completed", "a\ufffdb\ufffdc"),
        ("blocks", "completed", "in blocks"),
        ("command", "completed", "by command"),
    ],
)
async def test_whatever_a_wrapped_call_gives_is_one_result(
    stage: Stage, word: str, status: str, told: str
) -> None:
    stage.scripted.on(f"odd {word}", call("plain", {"text": word}), say("Over."))
    stage.scripted.on("beside", say("Over."))
    reply = await stage.chat(f"odd {word}", agent="odd_results")
    assert (reply.last["type"], shown(reply)) == ("done", "Over."), reply.last
    assert list(results(await history(stage, reply.session_id)).values()) == [status]
    [result] = [frame.data for frame in reply.frames if frame.type == "tool_result"]
    assert told in f"{result['content']} {result['error']}"
    await stage.goes_on_as(reply, "odd_results")


@pytest.mark.req("EXEC-30")
@pytest.mark.parametrize("word", ["late tool", "late model"])
async def test_what_a_plain_wrapper_asks_for_after_a_cancel_does_not_happen(
    stage: Stage, word: str
) -> None:
    stage.scripted.on("late tool", call("plain", {"text": "late"}), say("Never."))
    module = sys.modules["extensions.odd.extension"]
    for event in (module.REACHED, module.FREED, module.LEFT):
        event.clear()
    seen().clear()
    fields = {"message": word, "agent": "late"}
    async with stage.client.stream("POST", "/api/chat", data=fields) as response:
        session_id = response.headers["x-session-id"]
        assert await asyncio.to_thread(module.REACHED.wait, 10)
        asked = len(stage.requests)
        assert await stage.cancel(response.headers["x-run-id"]) == 202
        frames = [frame async for frame in frames_of(response)]
    assert frames[-1].data["status"] == "cancelled"
    module.FREED.set()
    assert await asyncio.to_thread(module.LEFT.wait, 10), "its thread goes round for ever"
    again = await stage.chat("and now?", agent="late", session_id=session_id)
    assert again.last["type"] == "done", again.last
    assert (seen(), len(stage.requests)) == ([], asked + 1)


@pytest.mark.req("EXEC-14")
async def test_models_that_a_middleware_asks_itself_are_counted_and_not_shown(
    stage: Stage,
) -> None:
    stage.scripted.on("Was that fine?", say("Yes, very."))
    stage.scripted.on("consult", say("Consulted."))
    reply = await stage.chat("consult", agent="consults")
    assert (reply.text, shown(reply)) == ("Consulted.", "Consulted.")
    asked = sum(one.prompt_tokens for one in stage.requests)
    assert reply.last["usage"]["input_tokens"] == asked + 1000
    assert texts(await history(stage, reply.session_id))[-1] == ("assistant", "Consulted.")
