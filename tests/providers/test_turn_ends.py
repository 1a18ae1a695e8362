"""A turn counts only when its end was confirmed: cut, failed and truncated streams (P8, P9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage

from core import errors
from core.ports import ModelHandle
from tests.providers.conftest import MakeModel, Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import (
    DONE,
    Raw,
    Reset,
    Turn,
    answer,
    call,
    calls,
    chunk,
    frame,
    raw_frames,
    say,
)

ASK = [HumanMessage("do it")]
HALF = frame({"content": "Half an ans"})
ARGUMENTS = '{"path":"/a.txt","content":"line one\\nline tw'


def fragment(arguments: str, **more: object) -> dict[str, object]:
    function = {"name": "write_file", "arguments": arguments}
    return frame({"tool_calls": [{"index": 0, "id": "call_1", "function": function, **more}]})


@pytest.mark.req("L10", "MODEL-04")
@pytest.mark.parametrize(
    "turn",
    [raw_frames([HALF]), raw_frames([HALF], done=True), raw_frames([HALF, Reset()])],
    ids=["clean close", "done without finish", "reset"],
)
async def test_text_without_a_finish_reason_is_a_cut_answer_that_keeps_its_half(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown, turn: Turn
) -> None:
    scripted.play(turn)
    with pytest.raises(errors.ProviderStreamCut) as caught:
        await model.ask(ASK, message_id="m1", sink=shown)
    assert caught.value.partial_text == "Half an ans" == shown.joined()
    assert caught.value.details["provider"] == model.provider


@pytest.mark.req("L10", "MODEL-07")
async def test_a_cut_answer_is_not_repeated_once_text_was_shown(
    scripted: ScriptedServer, make_model: MakeModel, shown: Shown
) -> None:
    scripted.play(raw_frames([HALF]), say("never asked for"))
    with pytest.raises(errors.ProviderStreamCut):
        await make_model(openai_max_retries=8).ask(ASK, message_id="m1", sink=shown)
    assert len(scripted.requests) == 1


@pytest.mark.req("L11", "MODEL-04")
@pytest.mark.parametrize(
    "turn",
    [
        raw_frames([fragment(ARGUMENTS)]),
        raw_frames([fragment('{"path":"/a.txt","content":"whole"}')]),
        raw_frames([fragment('{"path":"/a.txt"')]),
        raw_frames([fragment('{"path":"/a.txt","content":"whole"}'), DONE]),
        raw_frames([fragment(ARGUMENTS), Reset()]),
    ],
    ids=["inside arguments", "no finish", "only optional fields left", "done", "reset"],
)
async def test_no_call_comes_out_of_a_turn_without_a_confirmed_end(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown, turn: Turn
) -> None:
    scripted.play(turn)
    with pytest.raises(errors.ProviderStreamCut):
        await model.ask(ASK, message_id="m1", sink=shown)


@pytest.mark.req("L11")
async def test_half_a_call_closed_properly_is_a_call_with_invalid_arguments(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(raw_frames([fragment(ARGUMENTS), frame({}, "tool_calls"), DONE]))
    message = await model.ask(ASK, message_id="m1")
    assert message.tool_calls == []
    assert [one["id"] for one in message.invalid_tool_calls] == ["call_1"]
    assert "not JSON" in message.invalid_tool_calls[0]["error"]


@pytest.mark.req("L12")
@pytest.mark.parametrize("arguments", [ARGUMENTS, '{"path":"/a.txt","content":"line one"}'])
async def test_no_call_of_a_length_stopped_turn_may_run(
    scripted: ScriptedServer, model: ModelHandle, arguments: str
) -> None:
    scripted.play(call("write_file", arguments, id="call_1", finish="length"))
    message = await model.ask(ASK, message_id="m1")
    assert message.tool_calls == []
    assert message.response_metadata["truncated"] is True
    [broken] = message.invalid_tool_calls
    assert broken["id"] == "call_1" and "truncated" in broken["error"]


@pytest.mark.req("L12")
async def test_a_turn_at_its_token_limit_is_truncated_whatever_its_finish_says(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    used = {"prompt_tokens": 5, "completion_tokens": 40}
    asked = [("write_file", {"path": "/a.txt"}, "c1"), ("write_file", ARGUMENTS, "c2")]
    scripted.play(calls(asked, usage=used))
    message = await model.ask(ASK, message_id="m1", max_tokens=40)
    assert message.tool_calls == []
    assert [one["id"] for one in message.invalid_tool_calls] == ["c1", "c2"]
    assert scripted.requests[0].body["max_tokens"] == 40


@pytest.mark.req("L12")
async def test_text_that_hit_the_limit_is_kept_and_marked(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(say("as far as it went", finish="length"))
    message = await model.ask(ASK, message_id="m1")
    assert message.content == "as far as it went"
    assert message.response_metadata["truncated"] is True


@pytest.mark.req("L08")
@pytest.mark.parametrize(
    "last",
    [
        {"error": {"message": "upstream worker died", "code": 502}},
        {
            **frame({}, "error"),
            "error": {"message": "upstream worker died", "code": 502},
        },
    ],
    ids=["error object", "finish error"],
)
async def test_an_error_after_shown_text_ends_the_call_with_the_half_answer(
    scripted: ScriptedServer, make_model: MakeModel, shown: Shown, last: dict[str, object]
) -> None:
    scripted.play(raw_frames([HALF, last]))
    with pytest.raises(errors.ProviderOverloaded, match="upstream worker died") as caught:
        await make_model(openai_max_retries=3).ask(ASK, message_id="m1", sink=shown)
    assert caught.value.partial_text == "Half an ans"
    assert len(scripted.requests) == 1


@pytest.mark.req("L08")
async def test_a_named_error_event_is_an_error(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(raw_frames([Raw(b'event: error\ndata: {"message": "no room left"}\n\n')]))
    with pytest.raises(errors.ProviderOverloaded, match="no room left"):
        await model.ask(ASK, message_id="m1")


@pytest.mark.req("L08")
async def test_finish_error_without_an_error_object_is_an_error_too(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(raw_frames([HALF, frame({}, "error"), DONE]))
    with pytest.raises(errors.ProviderOverloaded) as caught:
        await model.ask(ASK, message_id="m1")
    assert caught.value.partial_text == "Half an ans"


@pytest.mark.req("L07")
async def test_chunks_without_choice_or_delta_are_skipped(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown
) -> None:
    nothing = chunk(None)
    del nothing["choices"]
    last = chunk([{"index": 0, "delta": None, "finish_reason": "stop"}])
    scripted.play(
        raw_frames([frame({"content": "ok"}), chunk(None), nothing, chunk([]), last], done=True)
    )
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == "ok" == shown.joined()


@pytest.mark.req("L07")
@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"choices": None}, "without a choice"),
        ({"choices": []}, "without a choice"),
        ({"error": {"message": "quota used up", "code": 402}}, "quota used up"),
        ({"message": "model is loading", "code": 503}, "model is loading"),
        ([], "without a choice"),
        ("<html><body>Please log in</body></html>", "Please log in"),
        ("{not json", "not a chat completion"),
    ],
)
async def test_a_body_without_a_choice_names_the_provider_and_what_it_said(
    scripted: ScriptedServer, model: ModelHandle, body: object, says: str
) -> None:
    scripted.play(answer(body), say("usable again"))
    with pytest.raises(errors.ProviderError, match=says) as caught:
        await model.ask(ASK, message_id="m1")
    assert model.provider in str(caught.value)
    assert (await model.ask(ASK, message_id="m2")).content == "usable again"


@pytest.mark.req("MODEL-04")
async def test_a_server_that_ignores_stream_is_understood(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown
) -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}
    whole = {"content": "sum", "tool_calls": [{"id": "c1", "function": function}]}
    body = {"choices": [{"message": whole, "finish_reason": "tool_calls"}]}
    scripted.play(answer(body), answer({"choices": [{"message": {"content": "text"}}]}))
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == shown.joined() == "sum"
    assert message.tool_calls == [
        {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    ]
    assert (await model.ask(ASK, message_id="m2")).content == "text"


@pytest.mark.req("L11")
async def test_calls_of_a_whole_body_without_finish_are_not_confirmed(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}
    whole = {"content": None, "tool_calls": [{"id": "c1", "function": function}]}
    scripted.play(answer({"choices": [{"message": whole, "finish_reason": None}]}))
    with pytest.raises(errors.ProviderStreamCut):
        await model.ask(ASK, message_id="m1")


@pytest.mark.req("MODEL-04")
async def test_a_reset_after_the_finish_reason_costs_only_the_usage(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(raw_frames([frame({"content": "whole"}), frame({}, "stop"), Reset()]))
    message = await model.ask(ASK, message_id="m1")
    assert message.content == "whole"
    assert message.response_metadata["usage_source"] == "estimate"


@pytest.mark.req("MODEL-04")
async def test_a_damaged_frame_is_never_skipped(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    torn = Raw(b'data: {"choices":[{"delta":{"cont\n\n')
    scripted.play(raw_frames([HALF, torn, frame({"content": "er"}), frame({}, "stop"), DONE]))
    with pytest.raises(errors.ProviderStreamCut, match="not JSON") as caught:
        await model.ask(ASK, message_id="m1")
    assert caught.value.partial_text == "Half an ans"


@pytest.mark.req("MODEL-04")
async def test_odd_finish_reasons_end_a_turn_and_fillers_do_not(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(
        raw_frames([frame({"content": "a"}, ""), frame({"content": "b"}, "null")], done=True),
        raw_frames([frame({"content": "a"}, ""), frame({"content": "b"}, "eos")], done=True),
    )
    with pytest.raises(errors.ProviderStreamCut):
        await model.ask(ASK, message_id="m1")
    message = await model.ask(ASK, message_id="m2")
    assert message.content == "ab" and message.response_metadata["finish_reason"] == "eos"


@pytest.mark.req("MODEL-04")
async def test_a_filtered_answer_without_a_word_says_so(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(replace(say("", finish="content_filter")))
    with pytest.raises(errors.ProviderRefused, match="content filter"):
        await model.ask(ASK, message_id="m1")
