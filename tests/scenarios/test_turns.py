"""Text, tools and thinking: what a client sees, what the provider is sent, what is kept."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results, texts, types, whole
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say


@pytest.mark.req("CHAT-01", "CHAT-02", "CHAT-05", "CHAT-06")
async def test_a_text_answer_is_streamed_whole_and_in_order(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.play(say("Good morning, world."))
    reply = await served.chat("hi", agent="assistant")
    assert reply.status == 200
    assert reply.headers["x-accel-buffering"] == "no"
    assert reply.headers["cache-control"] == "no-store"
    events = whole(reply)
    assert [event["type"] for event in events] == [
        "user_message",
        "agent_start",
        "thinking",
        "token",
        "citations",
        "agent_done",
        "done",
    ]
    assert events[3]["content"] == "Good morning, world."
    assert events[-1]["status"] == "success"
    assert events[-1]["usage"]["usage_source"] == "provider"
    assert events[-1]["usage"]["input_tokens"] > 0
    assert texts(await history(served, reply.session_id)) == [
        ("user", "hi"),
        ("assistant", "Good morning, world."),
    ]


@pytest.mark.req("CHAT-06", "CHAT-11", "EXEC-01", "EXEC-03")
async def test_text_then_a_tool_then_text_reads_like_that_everywhere(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    async with open_served(hitl_tools="") as served:
        scripted.play(
            call("calculate", {"expression": "6*7"}, id="c1", text="Let me see. "),
            say("It is 42."),
        )
        reply = await served.chat("6*7?")
        assert types(reply) == [
            "user_message",
            "agent_start",
            "thinking",
            "token",
            "executing",
            "tool_call",
            "tool_result",
            "thinking",
            "token",
            "citations",
            "agent_done",
            "done",
        ]
        [asked] = reply.of("tool_call")
        assert asked["args"] == {"expression": "6*7"}
        [result] = reply.of("tool_result")
        assert result["error"] is None
        assert "42" in result["content"]
        assert reply.text == "Let me see. It is 42."
        kept = await history(served, reply.session_id)
        assert texts(kept)[1:] == [("assistant", "Let me see. "), ("assistant", "It is 42.")]
        assert results(kept) == {"c1": "completed"}
        second = scripted.requests[1].messages
        assert [message["role"] for message in second] == ["system", "user", "assistant", "tool"]
        assert scripted.refused == []


@pytest.mark.req("CHAT-06", "CHAT-11", "EXEC-04", "L01")
async def test_reasoning_is_shown_apart_and_kept(served: Talk, scripted: ScriptedServer) -> None:
    scripted.play(say("Answer.", reasoning="First I think."))
    reply = await served.chat("hm")
    assert "".join(event["content"] for event in reply.of("thinking_token")) == "First I think."
    assert reply.text == "Answer."
    [_, answer] = await history(served, reply.session_id)
    assert [(part["type"], part["text"]) for part in answer["parts"]] == [
        ("thinking", "First I think."),
        ("text", "Answer."),
    ]


@pytest.mark.req("EXEC-03", "EXEC-12")
async def test_results_of_parallel_calls_reach_the_model_in_call_order(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    async with open_served(hitl_tools="") as served:
        asked = [("calculate", {"expression": f"{n}+{n}"}, f"k{n}") for n in range(5)]
        scripted.play(calls(asked), say("done"))
        reply = await served.chat("add them")
        assert reply.last["type"] == "done"
        sent = scripted.requests[1].messages
        assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == [
            f"k{n}" for n in range(5)
        ]


@pytest.mark.req("EXEC-12")
async def test_a_second_request_begins_with_the_bytes_of_the_first(
    served: Talk, scripted: ScriptedServer
) -> None:
    first = await served.chat("one")
    await served.chat("two", session_id=first.session_id)
    before, after = (seen.raw for seen in scripted.requests[:2])
    cut = before.index(b'"one"') + len(b'"one"')
    assert after[:cut] == before[:cut]
