"""Token counts: the provider's where they can be believed, marked estimates elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from core import errors
from core.ports import ModelHandle
from core.tokens import estimate_request, estimate_text
from providers.usage import metadata, read
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import chunk, error, frame, raw_frames, say

ASK = [HumanMessage("how many tokens is this?")]


@pytest.mark.req("L18", "EXEC-14")
async def test_cumulative_usage_counts_once(scripted: ScriptedServer, model: ModelHandle) -> None:
    def used(output: int) -> dict[str, Any]:
        return {"usage": {"prompt_tokens": 10, "completion_tokens": output}}

    scripted.play(
        raw_frames(
            [frame({"content": "a"}, **used(1)), frame({"content": "b"}, **used(2)),
             frame({}, "stop", **used(2))],
            done=True,
        )
    )  # fmt: skip
    message = await model.ask(ASK, message_id="m1")
    assert message.usage_metadata["input_tokens"] == 10
    assert message.usage_metadata["output_tokens"] == 2
    assert message.usage_metadata["total_tokens"] == 12
    assert message.response_metadata["usage_source"] == "provider"


@pytest.mark.req("L18", "EXEC-14")
@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "ten", "completion_tokens": True},
        {"prompt_tokens": -1, "completion_tokens": -1},
        {"prompt_tokens": 12},
        [],
    ],
)
async def test_missing_or_unusable_usage_is_estimated_and_marked(
    scripted: ScriptedServer, model: ModelHandle, usage: Any
) -> None:
    last = chunk([], usage=usage) if usage is not None else chunk([])
    scripted.play(
        raw_frames([frame({"content": "some words"}), frame({}, "stop"), last], done=True)
    )
    message = await model.ask(ASK, message_id="m1")
    assert message.response_metadata["usage_source"] == "estimate"
    assert message.usage_metadata["input_tokens"] > 5
    assert message.usage_metadata["output_tokens"] > 1


@pytest.mark.req("L18")
async def test_stream_options_are_dropped_once_refused_and_never_sent_again(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.rules.stream_options = False
    for number in range(3):
        message = await model.ask(ASK, message_id=f"m{number}")
        assert message.response_metadata["usage_source"] == "estimate"
    sent = ["stream_options" in seen.body for seen in scripted.requests]
    assert sent == [True, False, False, False]


@pytest.mark.req("L18")
async def test_a_refusal_for_another_reason_does_not_cost_the_usage(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(error(400), error(400), say("fine"))
    with pytest.raises(errors.ProviderRefused):
        await model.ask(ASK, message_id="m1")
    message = await model.ask(ASK, message_id="m2")
    assert message.response_metadata["usage_source"] == "provider"
    assert "stream_options" in scripted.requests[-1].body


@pytest.mark.req("EXEC-14")
@pytest.mark.parametrize(
    ("usage", "cached", "reasoning"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 64}}, 64, 0),
        ({"prompt_cache_hit_tokens": 32}, 32, 0),
        ({"completion_tokens_details": {"reasoning_tokens": 5}}, 0, 5),
        ({"prompt_tokens_details": None, "completion_tokens_details": None}, 0, 0),
        ({"prompt_tokens_details": {"cached_tokens": 10**9}}, 100, 0),
    ],
)
def test_cached_and_reasoning_tokens_are_read(usage: Any, cached: int, reasoning: int) -> None:
    counts = read({"prompt_tokens": 100, "completion_tokens": 20, **usage})
    told, source = metadata(counts, 1, 1)
    assert source == "provider"
    assert told["input_token_details"]["cache_read"] == cached
    assert told["output_token_details"]["reasoning"] == reasoning


@pytest.mark.req("EXEC-14")
@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("word" * 25, 25), ("汉字" * 50, 100), ("é" * 8, 5)]
)
def test_texts_are_estimated(text: str, tokens: int) -> None:
    assert estimate_text(text) == tokens


@pytest.mark.req("EXEC-14", "L25")
@given(st.text(st.characters()), st.text())
def test_estimates_never_fail_and_grow_with_the_text(text: str, more: str) -> None:
    assert estimate_text(text + more) >= max(estimate_text(text) - 1, 0)
    assert estimate_request([{"role": "user", "content": text}]) > 0
