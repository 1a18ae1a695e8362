"""What is sent out: valid for the strictest server, and the same bytes turn after turn."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from core.ports import ModelHandle
from providers.history import HistoryEncoder
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_strict import Rules, fault_of
from tests.support.scripted_turns import call, say

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
}


def encoded(*messages: BaseMessage) -> list[dict[str, Any]]:
    return HistoryEncoder().encode(messages)


@pytest.mark.req("L23")
async def test_shapes_that_strict_servers_refuse_are_mended(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    history = [
        HumanMessage([{"type": "text", "text": "look"}, IMAGE]),
        SystemMessage("memory of the user"),
        HumanMessage("second message in a row", name="ann"),
        AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I see"}],
                  tool_calls=[{"name": "add", "args": {}, "id": "c1"}],
                  additional_kwargs={"reasoning_content": "hm"}),
        ToolMessage([{"type": "text", "text": "3"}, IMAGE], tool_call_id="c1", name="add"),
        AIMessage(""),
        SystemMessage([{"type": "text", "text": "summary"}]),
        HumanMessage("go on"),
    ]  # fmt: skip
    await model.ask(history, tools=[ADD], message_id="m1")
    assert scripted.refused == []
    sent = scripted.requests[0].messages
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]
    assert sent[0]["content"] == "memory of the user\n\nsummary"
    assert sent[1]["content"].startswith("look\n[image left out")
    assert sent[1]["content"].endswith("\n\nsecond message in a row")
    assert sent[2]["content"] == "I see"


@pytest.mark.req("L23")
async def test_no_tools_means_no_field_about_tools(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    await model.ask([HumanMessage("hi")], tools=[], message_id="m1")
    assert set(scripted.requests[0].body) == {"model", "stream", "stream_options", "messages"}


@pytest.mark.req("L15")
async def test_broken_arguments_in_the_history_go_out_as_json_objects(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.on("first", call("add", '{"a":1,"b":'), say("sorry"))
    history: list[BaseMessage] = [HumanMessage("first")]
    broken = await model.ask(history, tools=[ADD], message_id="m1")
    history += [broken, ToolMessage("not JSON", tool_call_id=broken.invalid_tool_calls[0]["id"])]
    history.append(await model.ask(history, tools=[ADD], message_id="m2"))
    restored = [type(one).model_validate_json(one.model_dump_json()) for one in history]
    for number, kept in enumerate((history, history, restored)):
        asked = [*kept, HumanMessage(f"more {number}")]
        assert (await model.ask(asked, message_id="m")).content == f"echo: more {number}"
    assert scripted.refused == []
    arguments = scripted.requests[-1].messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"_raw": '{"a":1,"b":'}


@pytest.mark.req("L23")
def test_a_conversation_always_begins_with_the_user() -> None:
    sent = encoded(SystemMessage("s"), AIMessage("earlier answer"), HumanMessage("and now?"))
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]


@pytest.mark.req("L23")
def test_foreign_message_types_become_known_roles() -> None:
    sent = encoded(ChatMessage("rules", role="system"), ChatMessage("hi", role="visitor"))
    assert sent == [{"role": "system", "content": "rules"}, {"role": "user", "content": "hi"}]


@pytest.mark.req("EXEC-12", "MODEL-08")
async def test_each_request_is_the_beginning_of_the_next_byte_for_byte(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    scripted.on("sums", call("add", {"a": 1, "b": "ü"}), call("add", {"a": 2}), say("3 and 5"))
    history: list[BaseMessage] = [SystemMessage("be exact"), HumanMessage("two sums")]
    for number in range(3):
        message = await model.ask(history, tools=[ADD], message_id=f"m{number}")
        history.append(message)
        history += [ToolMessage("3", tool_call_id=one["id"]) for one in message.tool_calls]
    await model.ask([*history, HumanMessage("thanks")], tools=[ADD], message_id="m9")
    bodies = [seen.raw for seen in scripted.requests]
    assert len(bodies) == 4
    for earlier, later in itertools.pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}"))


@pytest.mark.req("MODEL-08")
async def test_one_connection_serves_many_requests(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    for number in range(5):
        await model.ask([HumanMessage("hi")], message_id=f"m{number}")
    assert {seen.connection for seen in scripted.requests} == {1}


@pytest.mark.req("EXEC-12")
def test_a_message_is_encoded_once_however_often_it_is_sent() -> None:
    encoder = HistoryEncoder()
    history = [HumanMessage("a"), AIMessage("b"), HumanMessage("c")]
    first, second = encoder.encode(history), encoder.encode(history)
    assert all(one is other for one, other in zip(first, second, strict=True))


@pytest.mark.req("EXEC-12")
def test_encoded_forms_do_not_outlive_their_messages() -> None:
    encoder = HistoryEncoder()
    for number in range(1000):
        encoder.encode([HumanMessage(str(number))])
    assert encoder.encode([HumanMessage("last")]) == [{"role": "user", "content": "last"}]
    assert len(encoder._known) < 10


texts = st.text(st.characters(exclude_categories=()), max_size=20)
blocks = st.lists(
    st.one_of(texts, st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
              st.just(IMAGE), st.fixed_dictionaries({"type": texts})),
    max_size=3,
)  # fmt: skip
contents = st.one_of(texts, blocks)


@st.composite
def paired(draw: st.DrawFn) -> list[BaseMessage]:
    """Well paired histories with everything else wrong that can be."""
    history: list[BaseMessage] = []
    for number in range(draw(st.integers(1, 6))):
        history.append(draw(st.sampled_from([HumanMessage, SystemMessage, AIMessage]))(
            draw(contents)))  # fmt: skip
        good = draw(st.lists(st.dictionaries(texts, texts | st.integers(), max_size=2), max_size=2))
        bad = draw(st.lists(texts, max_size=2))
        ids = [f"c{number}-{place}" for place in range(len(good) + len(bad))]
        valid = [
            {"name": draw(texts), "args": args, "id": ids[place]} for place, args in enumerate(good)
        ]
        invalid = [
            {"name": draw(texts), "args": args, "id": ids[len(good) + place], "error": "e",
             "type": "invalid_tool_call"}
            for place, args in enumerate(bad)
        ]  # fmt: skip
        history.append(AIMessage(draw(contents), tool_calls=valid, invalid_tool_calls=invalid))
        history += [ToolMessage(draw(contents), tool_call_id=id) for id in ids]
    return [*history, HumanMessage("the end")]


@pytest.mark.req("L15", "L23", "L25")
@given(paired())
def test_any_well_paired_history_is_valid_for_a_strict_server(history: list[BaseMessage]) -> None:
    messages = encoded(*history)
    assert fault_of({"model": "m", "messages": messages}, Rules()) is None
    assert json.dumps(messages, ensure_ascii=False).encode()
