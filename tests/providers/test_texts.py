"""Text on its way in: reasoning apart from the answer, and nothing that cannot be stored."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from core.ports import ModelHandle
from core.text import clean, clean_value, shorten
from providers.thinking import ThinkSplitter
from tests.providers.conftest import Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Raw, call, frame, raw_frames, say

ASK = [HumanMessage("think")]


@pytest.mark.req("L01", "MODEL-04", "EXEC-04")
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_beside_a_call_is_kept_and_shown_apart(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown, field: str
) -> None:
    function = {"name": "add", "arguments": '{"a":1,"b":2}'}
    scripted.play(
        raw_frames(
            [frame({"role": "assistant", "content": None, field: "plan A"}),
             frame({"tool_calls": [{"index": 0, "id": "call_1", "function": function}]}),
             frame({}, "tool_calls")],
            done=True,
        ),
        say("3"),
    )  # fmt: skip
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.additional_kwargs["reasoning_content"] == "plan A"
    assert shown.pieces == [("thinking", "m1", "plan A")]
    restored = AIMessage.model_validate_json(message.model_dump_json())
    assert restored.additional_kwargs["reasoning_content"] == "plan A"
    await model.ask([*ASK, restored, ToolMessage("3", tool_call_id="call_1")], message_id="m2")
    assert scripted.refused == [], "the field is not sent to a server that forbids it"


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_think_tags_are_split_wherever_the_deltas_are_cut(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown, size: int
) -> None:
    scripted.play(say("\n<think>\nFirst <b> & </thin then.\n</think>\n\nThe <answer>.", size=size))
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == "The <answer>." == shown.joined()
    thinking = message.additional_kwargs["reasoning_content"]
    assert thinking == "First <b> & </thin then.\n" == shown.joined("thinking")


@pytest.mark.req("MODEL-04")
@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("plain", "", "plain"),
        ("The tag <think> is shown</think>", "", "The tag <think> is shown</think>"),
        ("<thinking>a</thinking>b", "a", "b"),
        ("<think>never closed </th", "never closed </th", ""),
        ("  <thi", "", "  <thi"),
        ("<think></think>", "", ""),
        ("  indented answer", "", "  indented answer"),
    ],
)
@given(cuts=st.lists(st.integers(0, 40), max_size=6))
def test_only_a_leading_tag_holds_reasoning(
    text: str, thinking: str, answer: str, cuts: list[int]
) -> None:
    splitter = ThinkSplitter()
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [splitter.feed(text[a:b]) for a, b in itertools.pairwise(places)]
    pieces.append(splitter.close())
    assert "".join(one for one, _ in pieces) == thinking
    assert "".join(one for _, one in pieces) == answer


@pytest.mark.req("L25")
async def test_lone_surrogates_become_replacement_characters(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown
) -> None:
    lone = Raw(
        b'data: {"choices":[{"index":0,"delta":{"content":"x\\ud83d"},"finish_reason":null}]}\n\n'
    )
    scripted.play(raw_frames([lone, frame({}, "stop")], done=True))
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == "x\ufffd" == shown.joined()
    asked = [*ASK, message, HumanMessage("and \udcff this"), ]  # fmt: skip
    assert (await model.ask(asked, message_id="m2")).content == "echo: and \ufffd this"
    assert scripted.refused == []


@pytest.mark.req("L25")
async def test_a_pair_that_was_cut_between_two_deltas_is_one_character(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown
) -> None:
    scripted.play(
        raw_frames(
            [frame({"content": "a\ud83d"}), frame({"content": "\ude00b"}), frame({}, "stop")],
            done=True,
        )
    )
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == "a😀b" == shown.joined()


@pytest.mark.req("L25")
async def test_surrogates_in_tools_and_results_do_not_stop_a_request(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.play(call("read", {"path": "/workspace/a"}, id="c1"), say("ok"))
    tool = {"name": "read", "description": "Reads \udc97.", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": tool}]
    message = await model.ask(ASK, tools=tools, message_id="m1")
    result = ToolMessage("bytes \udc97 and \x00", tool_call_id="c1")
    await model.ask([*ASK, message, result], tools=tools, message_id="m2")
    assert scripted.refused == []
    assert scripted.requests[1].messages[-1]["content"] == "bytes \ufffd and \ufffd"


@pytest.mark.req("L25")
async def test_nul_and_invalid_utf8_are_replaced(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    bad = Raw(b'data: {"choices":[{"delta":{"content":"a\\u0000b\xff"}}]}\n\n')
    scripted.play(raw_frames([bad, frame({}, "stop")], done=True))
    assert (await model.ask(ASK, message_id="m1")).content == "a\ufffdb\ufffd"


@pytest.mark.req("L25")
@given(st.text(st.characters(exclude_categories=())))
def test_clean_text_can_be_stored_everywhere_and_stays_the_same(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.encode("utf-8").decode() == cleaned == clean(cleaned)
    assert "\x00" not in cleaned
    assert clean_value({text: [text, 1, None]}) == {cleaned: [cleaned, 1, None]}


def test_shortened_text_says_how_much_is_missing() -> None:
    assert shorten("abcdef", 4) == "abcd… (2 more characters)"
    assert shorten("abcd", 4) == "abcd"


@pytest.mark.req("MODEL-04")
async def test_a_refusal_is_shown_as_the_answer(
    scripted: ScriptedServer, model: ModelHandle, shown: Shown
) -> None:
    scripted.play(raw_frames([frame({"refusal": "I will not."}), frame({}, "stop")], done=True))
    message = await model.ask(ASK, message_id="m1", sink=shown)
    assert message.content == "I will not." == shown.joined()
    assert message.additional_kwargs["refusal"] == "I will not."


@pytest.mark.req("MODEL-04")
async def test_content_blocks_in_deltas_are_text(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    block = {"type": "text", "text": "in a block"}
    scripted.play(raw_frames([frame({"content": [block]}), frame({}, "stop")], done=True))
    assert json.dumps((await model.ask(ASK, message_id="m1")).content) == '"in a block"'
