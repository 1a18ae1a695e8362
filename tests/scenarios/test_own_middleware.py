"""Middleware of one's own: order, jumps, held-back text, wrapped tools, state (EXT-07)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.scenarios.stage import Stage, house_of
from tests.scenarios.whole import history, results, shown, texts, types
from tests.support import own_extension
from tests.support.app import Served, eventually, frames_of
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, error, say


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """One product with an agent for each middleware."""
    with house_of(own_extension, postgres, provider, hitl_tools="calculate,brought") as served:
        yield served


async def checkpoints(served: Served, session_id: str) -> str:
    """Return what stands openly in a session's checkpoints."""
    query = "SELECT checkpoint FROM checkpoints WHERE thread_id = %s"
    async with served.product.database.pool.connection() as connection:
        return str(await (await connection.execute(query, [session_id])).fetchall())


def tries() -> dict[str, int]:
    """Return what the extension counts, in the module that the product loaded."""
    return sys.modules["extensions.own.extension"].TRIES


@pytest.mark.req("EXT-07")
async def test_the_first_is_outermost_for_plain_and_async_methods(stage: Stage) -> None:
    stage.scripted.on("who is around", say("In"))
    reply = await stage.chat("who is around", agent="rings")
    assert stage.requests[0].messages[0]["content"].endswith("ZBC")
    assert shown(reply) == reply.text == "Incbz-C-B-Z"
    assert texts(await history(stage, reply.session_id))[-1] == ("assistant", "Incbz-C-B-Z")


@pytest.mark.req("EXT-07")
async def test_a_jump_to_the_model_asks_it_again_after_the_turn_was_told(stage: Stage) -> None:
    stage.scripted.on_each("write it up", say("A draft."))
    stage.scripted.on("Make it final.", say("The final text."))
    reply = await stage.chat("write it up", agent="better")
    assert shown(reply) == "A draft.The final text."
    assert texts(await history(stage, reply.session_id)) == [
        ("user", "write it up"),
        ("assistant", "A draft."),
        ("assistant", "The final text."),
    ]


@pytest.mark.req("EXT-07")
async def test_a_jump_to_the_end_answers_without_the_model(stage: Stage) -> None:
    reply = await stage.chat("that is too much", agent="full")
    assert (reply.last["type"], shown(reply)) == ("done", "That is enough.")
    assert texts(await history(stage, reply.session_id))[-1] == ("assistant", "That is enough.")
    assert stage.requests == []


@pytest.mark.req("EXT-07")
@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("jumper", "jumped to 'end' without having said"),
        ("thief", "wrote the state 'loop', which is the server's own"),
        ("faulty", "faulty failed in after_agent (RuntimeError)"),
    ],
)
async def test_a_middleware_that_fails_ends_the_run_under_its_name(
    stage: Stage, agent: str, told: str
) -> None:
    reply = await stage.chat("go", agent=agent)
    assert reply.last["code"] == "middleware_failed"
    assert told in reply.last["message"]
    assert "secret" not in str(reply.frames)


@pytest.mark.req("EXT-07", "CHAT-02")
async def test_a_second_call_after_the_first_shown_token_takes_the_text_back(
    stage: Stage,
) -> None:
    stage.scripted.on_each("say it twice", say("The first."), say("The second."))
    reply = await stage.chat("say it twice", agent="twice")
    assert shown(reply) == "The second."
    assert types(reply).count("message_reset") == 1
    assert "The first." in reply.text
    assert reply.last["usage"]["input_tokens"] > stage.requests[1].prompt_tokens


@pytest.mark.req("EXT-07", "CHAT-02")
@pytest.mark.parametrize(("agent", "resets"), [("upper", 0), ("liar", 1)])
async def test_a_changed_answer_is_held_back_or_corrected(
    stage: Stage, agent: str, resets: int
) -> None:
    stage.scripted.on("how loud", say("Very quiet."))
    reply = await stage.chat("how loud", agent=agent)
    assert shown(reply) == "VERY QUIET."
    assert ("Very quiet." in reply.text) is bool(resets)
    assert types(reply).count("message_reset") == resets


@pytest.mark.req("EXT-07", "EXEC-40")
async def test_state_of_a_middleware_is_kept_over_runs_and_never_as_plain_json(
    stage: Stage,
) -> None:
    first = await stage.chat("one", agent="count")
    await stage.chat("two", agent="count", session_id=first.session_id)
    system = [seen.messages[0]["content"] for seen in stage.requests]
    assert [text.rsplit(" ", 2)[1:] for text in system] == [["asked", "1"], ["asked", "2"]]
    stored = await stage.served.inside(checkpoints(stage.served, first.session_id))
    assert "channel_values" in stored
    assert "'asked': 2" not in stored


@pytest.mark.req("EXT-07", "EXEC-23")
async def test_a_tool_that_a_middleware_brings_is_asked_about_and_sees_the_state(
    stage: Stage,
) -> None:
    stage.scripted.on("bring it", call("brought", {"word": "messages:"}), say("There."))
    reply = await stage.chat("bring it", agent="brings")
    assert reply.last["type"] == "interrupt"
    [asked] = reply.last["tool_approval"]["calls"]
    done = await stage.resume(
        reply, decisions=[{"tool_call_id": asked["tool_call_id"], "type": "approve"}]
    )
    assert done.of("tool_result")[0]["content"] == "messages: 2"
    assert "brought" in stage.requests[0].tool_names


@pytest.mark.req("EXT-07", "EXEC-23")
async def test_a_call_changed_after_its_approval_does_not_happen(stage: Stage) -> None:
    stage.scripted.on("spend it", call("calculate", {"expression": "1+1"}), say("Refused."))
    reply = await stage.chat("spend it", agent="spend")
    [asked] = reply.last["tool_approval"]["calls"]
    done = await stage.resume(
        reply, decisions=[{"tool_call_id": asked["tool_call_id"], "type": "approve"}]
    )
    assert "changed this call" in done.of("tool_result")[0]["error"]
    kept = await history(stage, reply.session_id)
    assert list(results(kept).values()) == ["denied"]


@pytest.mark.req("EXT-07", "EXT-09")
async def test_a_wrapper_may_change_what_a_tool_said(stage: Stage) -> None:
    stage.scripted.on("the answer", call("calculate", {"expression": "611*919"}), say("Secret."))
    reply = await stage.chat("the answer", agent="hush")
    [asked] = reply.last["tool_approval"]["calls"]
    done = await stage.resume(
        reply, decisions=[{"tool_call_id": asked["tool_call_id"], "type": "approve"}]
    )
    assert '"value": 17' in done.of("tool_result")[0]["content"]
    assert "561509" not in str(done.frames) + str(stage.requests[-1].body)


@pytest.mark.req("EXT-07", "EXEC-33")
async def test_tool_retry_repeats_what_may_be_repeated_and_nothing_else(stage: Stage) -> None:
    asked = [("shaky", {"number": 7}), ("pay", {"amount": 5})]
    stage.scripted.on("try hard", *(call(*one) for one in asked), say("Done."))
    reply = await stage.chat("try hard", agent="retry")
    shaky, pay = reply.of("tool_result")
    assert (shaky["content"], shaky["error"]) == ("7", None)
    assert "refused for the time 1" in pay["content"]
    assert reply.last["type"] == "done"


@pytest.mark.req("EXT-07", "EXEC-30")
async def test_a_turn_that_was_not_let_stand_is_gone_after_a_cancel(stage: Stage) -> None:
    stage.scripted.on("get stuck", say("Nobody may read this."))
    before = tries()["stuck"]
    fields = {"message": "get stuck", "agent": "stuck"}
    async with stage.client.stream("POST", "/api/chat", data=fields) as response:
        run_id = response.headers["x-run-id"]
        session_id = response.headers["x-session-id"]
        await eventually(lambda: tries()["stuck"] > before)
        assert await stage.cancel(run_id) == 202
        frames = [frame async for frame in frames_of(response)]
    assert "Nobody may read" not in str(frames)
    assert texts(await history(stage, session_id)) == [("user", "get stuck")]
    await stage.chat("and now?", agent="assistant", session_id=session_id)
    assert "Nobody may read" not in str(stage.requests[-1].body)


@pytest.mark.req("EXT-11", "EXT-07")
async def test_the_assembled_middleware_can_be_read(stage: Stage) -> None:
    agent = (await stage.client.get("/api/model")).json()["agent"]
    names = [one["name"] for one in agent["middleware"]]
    assert names.index("z") < names.index("b") < names.index("c")
    rings = next(one for one in agent["agents"] if one["id"] == "rings")
    assert (rings["middleware"], rings["holds_back"]) == (["z", "b", "c"], True)
    graph = (await stage.client.get("/api/agents/rings/graph")).text
    assert "c.after_model" in graph


@pytest.mark.req("EXT-07")
async def test_a_tool_selector_asks_the_servers_own_model(stage: Stage) -> None:
    chosen = call("ToolSelectionResponse", {"tools": ["now"]})
    stage.scripted.on(lambda seen: "ToolSelectionResponse" in seen.tool_names, chosen)
    stage.scripted.on("what time is it", say("Late."))
    reply = await stage.chat("what time is it", agent="select")
    assert (shown(reply), reply.text) == ("Late.", "Late.")
    first, second = stage.requests
    assert first.body["tool_choice"] == "required"
    assert second.tool_names == ["now"]
    assert reply.last["usage"]["input_tokens"] > second.prompt_tokens


@pytest.mark.req("EXT-07", "MODEL-02")
@pytest.mark.parametrize(("agent", "text"), [("other", "Mine."), ("fallback", "Instead.")])
async def test_another_model_may_answer_in_place_of_the_servers(
    stage: Stage, agent: str, text: str
) -> None:
    stage.scripted.on("who answers", error(400, "not today"))
    reply = await stage.chat("who answers", agent=agent)
    assert (reply.last["type"], shown(reply), reply.text) == ("done", text, text)
    assert len(stage.requests) == (1 if agent == "fallback" else 0)


@pytest.mark.req("EXT-07", "EXEC-09")
async def test_a_wrapper_cannot_ask_beyond_the_budget_of_the_run(stage: Stage) -> None:
    reply = await stage.chat("ask for ever", agent="greedy")
    assert reply.last["code"] == "model_call_limit"
    assert len(stage.requests) == 5


@pytest.mark.req("EXT-07", "EXEC-10")
async def test_a_request_that_is_too_long_is_shortened_past_a_retrying_wrapper(
    stage: Stage,
) -> None:
    overflow = error(400, "This model's maximum context length is 10 tokens.")
    stage.scripted.on_each("so much to say", overflow, say("Short enough."))
    first = await stage.chat("hello", agent="patient")
    reply = await stage.chat("so much to say", agent="patient", session_id=first.session_id)
    assert shown(reply) == "Short enough.", reply.frames
