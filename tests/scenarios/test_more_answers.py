"""Odd answers: empty, only thought, filtered, cut, counted wrongly, named wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.stage import Stage
from tests.scenarios.whole import history, texts
from tests.support.app import Reply
from tests.support.scripted_turns import Turn, frame, raw_frames, say


def nothing(**delta: Any) -> Turn:
    """A turn that ends properly and says nothing but this."""
    return raw_frames([frame(delta), frame({}, "stop")], done=True)


EMPTY = {
    "nothing": nothing(),
    "null": nothing(content=None),
    "blanks": nothing(content=" \n\t "),
    "only reasoning": nothing(reasoning_content="Let me think."),
    "only think tags": nothing(content="<think>Let me think.</think>"),
    "an empty list of calls": nothing(content="", tool_calls=[]),
    "an empty refusal": nothing(refusal=""),
}


def shown(reply: Reply) -> dict[str, str]:
    """Return text and reasoning as a watcher has put them together, by message."""
    seen: dict[str, str] = {}
    for frame_ in reply.frames:
        event = frame_.data
        if event["type"] in ("token", "thinking_token"):
            seen[event["message_id"]] = seen.get(event["message_id"], "") + event["content"]
        elif event["type"] == "message_reset":
            seen.pop(event["message_id"], None)
    return seen


def kept(messages: list[dict[str, Any]]) -> dict[str, str]:
    """Return text and reasoning of the answers in a history, by message."""
    said = {
        message["id"]: "".join(
            part["text"] for part in message["parts"] if part["type"] in ("text", "thinking")
        )
        for message in messages
        if message["role"] == "assistant"
    }
    return {key: text for key, text in said.items() if text}


@pytest.mark.req("L07", "L10", "CHAT-28", "P8")
@pytest.mark.parametrize("name", EMPTY)
async def test_an_empty_answer_is_asked_for_again(stage: Stage, name: str) -> None:
    stage.scripted.on_each(f"empty {name}.", EMPTY[name], say("Here it is."))
    reply = await stage.chat(f"empty {name}.")
    assert reply.last["type"] == "done", reply.last
    said = await history(stage, reply.session_id)
    assert texts(said)[1:] == [("assistant", "Here it is.")]
    assert shown(reply) == kept(said)
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L07", "P8", "CHAT-28")
@pytest.mark.parametrize("name", EMPTY)
async def test_a_model_that_says_nothing_twice_is_named(stage: Stage, name: str) -> None:
    stage.scripted.on(f"mute {name}.", EMPTY[name])
    reply = await stage.chat(f"mute {name}.")
    assert reply.last["code"] == "provider_junk", reply.last
    assert len(stage.requests) == 2
    assert shown(reply) == kept(await history(stage, reply.session_id))
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L08", "L10", "P8")
@pytest.mark.parametrize("text", ["Half an ans", ""])
@pytest.mark.parametrize("reason", ["content_filter", "sensitive"])
async def test_a_filtered_answer_is_never_a_success(stage: Stage, text: str, reason: str) -> None:
    word = f"filter {reason} {len(text)}."
    stage.scripted.on(word, say(text, finish=reason))
    reply = await stage.chat(word)
    assert reply.last["code"] == "provider_refused", reply.last
    assert "filter" in reply.last["message"]
    said = await history(stage, reply.session_id)
    assert said[-1]["status"] == "incomplete"
    assert shown(reply) == kept(said)
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L10", "L12")
async def test_an_answer_cut_by_the_output_limit_is_marked_and_said(stage: Stage) -> None:
    stage.scripted.on("cut text", say("As far as it we", finish="length"))
    reply = await stage.chat("cut text")
    assert reply.last["type"] == "done"
    assert "output limit" in reply.of("progress")[-1]["message"]
    said = await history(stage, reply.session_id)
    assert said[-1]["status"] == "incomplete"
    assert texts(said)[1:] == [("assistant", "As far as it we")]
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L07", "L10")
async def test_a_refusal_is_the_answer(stage: Stage) -> None:
    stage.scripted.on("refuse me", nothing(refusal="I will not do that."))
    reply = await stage.chat("refuse me")
    assert reply.last["type"] == "done"
    assert texts(await history(stage, reply.session_id))[1:] == [
        ("assistant", "I will not do that.")
    ]
    await stage.goes_on(reply.session_id)


USAGES: dict[str, Any] = {
    "negative": {"prompt_tokens": -5, "completion_tokens": -1, "total_tokens": -6},
    "texts": {"prompt_tokens": "many", "completion_tokens": "12"},
    "huge": {"prompt_tokens": 10**18, "completion_tokens": 10**18},
    "beyond 64 bits": {"prompt_tokens": 10**30, "completion_tokens": 1},
    "as large as allowed": {"prompt_tokens": 2**53 - 1, "completion_tokens": 2**53 - 1},
    "fractions": {"prompt_tokens": 10.7, "completion_tokens": 0.5},
    "truth values": {"prompt_tokens": True, "completion_tokens": False},
    "zero": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    "lists": {"prompt_tokens": [1], "completion_tokens": {"n": 1}},
    "odd details": {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": "none",
        "completion_tokens_details": [1],
    },
    "more cached than sent": {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 10**6},
    },
    "no object": "12 tokens",
}


@pytest.mark.req("L18", "EXEC-14")
@pytest.mark.parametrize("name", USAGES)
async def test_counts_that_make_no_sense_end_nothing(stage: Stage, name: str) -> None:
    last = raw_frames(
        [frame({"content": "Fine."}), frame({}, "stop", usage=USAGES[name])], done=True
    )
    stage.scripted.on(f"count {name}.", last)
    reply = await stage.chat(f"count {name}.")
    assert reply.last["type"] == "done", reply.last
    usage = reply.last["usage"]
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] >= 0
    assert usage["cached_tokens"] <= usage["input_tokens"]
    again = await stage.chat(f"count {name}. once more", session_id=reply.session_id)
    assert again.last["type"] == "done", again.last
    # No summary was asked for: nothing is near the window.
    assert all(seen.tool_names for seen in stage.requests)
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L07", "EXEC-14")
@pytest.mark.parametrize("model", ["another-model", "x" * 5_000, 7, None, "mo\x00del\ud83d"])
async def test_a_model_may_call_itself_what_it_likes(stage: Stage, model: Any) -> None:
    word = f"named {str(model)[:9]!r} {len(str(model))}."
    whole = [frame({"content": "Fine."}, model=model), frame({}, "stop", model=model)]
    stage.scripted.on(word, raw_frames(whole, done=True))
    reply = await stage.chat(word)
    assert reply.last["type"] == "done", reply.last
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L25", "CHAT-28")
@pytest.mark.parametrize(
    "text",
    ["x\ud83d", "\udcff\ud800", "a\x00b", "\ufeff\u2028\u2029", "\u202eab", "e\u0301" * 2_000],
)
async def test_odd_characters_are_shown_as_they_are_kept(stage: Stage, text: str) -> None:
    word = f"odd text {len(text)} {ord(text[0])}."
    stage.scripted.on(word, say(text + " end", usage={"prompt_tokens": 9}))
    reply = await stage.chat(word)
    assert reply.last["type"] == "done", reply.last
    assert shown(reply) == kept(await history(stage, reply.session_id))
    await stage.goes_on(reply.session_id)
