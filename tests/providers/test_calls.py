"""Tool calls out of odd deltas and odd arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from core.ports import ModelHandle
from providers.calls import ECHO, CallJoiner, parse, settle
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import calls, frame, raw_frames, say

ASK = [HumanMessage("add 1 and 2")]


def joined(*fragments: Any) -> list[tuple[str, str, str]]:
    joiner = CallJoiner()
    for fragment in fragments:
        joiner.feed(fragment if isinstance(fragment, list) else [fragment])
    return [(call.id, call.name, call.arguments) for call in joiner.calls]


def part(
    arguments: Any = "", name: str | None = None, id: str | None = None, index: Any = None
) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    more = {"id": id} if id is not None else {}
    return more | {"function": function} | ({"index": index} if index is not None else {})


async def answered(scripted: ScriptedServer, model: ModelHandle, deltas: list[Any]) -> AIMessage:
    """Ask twice, so that the strict server judges the history with the calls."""
    frames = [frame({"tool_calls": delta}) for delta in deltas]
    scripted.play(raw_frames([*frames, frame({}, "tool_calls")], done=True), say("done"))
    message = await model.ask(ASK, message_id="m1")
    every = [*message.tool_calls, *message.invalid_tool_calls]
    results = [ToolMessage("3", tool_call_id=one["id"]) for one in every]
    assert (await model.ask([*ASK, message, *results], message_id="m2")).content == "done"
    assert scripted.refused == []
    return message


@pytest.mark.req("L02")
async def test_fragments_without_an_index_become_one_call(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    first = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a":1,'},
    }
    second = {"type": "function", "function": {"arguments": '"b":2}'}}
    message = await answered(scripted, model, [[first], [second]])
    assert [(one["id"], one["args"]) for one in message.tool_calls] == [
        ("call_1", {"a": 1, "b": 2})
    ]


@pytest.mark.req("L04")
@pytest.mark.parametrize("missing", [{}, {"id": ""}, {"id": None}])
async def test_calls_without_an_id_get_unique_ones(
    scripted: ScriptedServer, model: ModelHandle, missing: dict[str, Any]
) -> None:
    function = {"name": "add", "arguments": '{"a":1,"b":2}'}
    whole = [{"index": index, "function": function, **missing} for index in (0, 1)]
    message = await answered(scripted, model, [[whole[0]], [whole[1]]])
    first, second = (one["id"] for one in message.tool_calls)
    assert first and second and first != second


@pytest.mark.req("L04")
async def test_an_id_that_the_history_knows_is_replaced(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    old = AIMessage("", tool_calls=[{"name": "add", "args": {}, "id": "call_1"}])
    history = [*ASK, old, ToolMessage("3", tool_call_id="call_1"), HumanMessage("again")]
    scripted.play(calls([("add", {}, "call_1"), ("add", {}, "call_2")]))
    message = await model.ask(history, message_id="m2")
    first, second = (one["id"] for one in message.tool_calls)
    assert first != "call_1" and second == "call_2"


@pytest.mark.req("L02", "MODEL-04")
@pytest.mark.parametrize(
    ("fragments", "calls_"),
    [
        ([part('{"a"', "f", "x", 0), part(":1}", index=0)], [("x", "f", '{"a":1}')]),
        ([part("{}", "f", "x", 0), part("{}", "g", "y", 0)], [("x", "f", "{}"), ("y", "g", "{}")]),
        ([part("{}", "f", index=0), part("{}", "f", index=0)], [("", "f", "{}")] * 2),
        ([part("{}", "f", "x"), part("{}", "f", "x")], [("x", "f", "{}")]),
        ([part('{"a"', "f", "x", 0), part(":1}", "f", "x", 0)], [("x", "f", '{"a":1}')]),
        ([part("", "get_", "x", 0), part("{}", "time", index=0)], [("x", "get_time", "{}")]),
        ([part("", "f", index=0), part("{}", id="late", index=0)], [("late", "f", "{}")]),
        ([[part("{}", "f", "x"), part("{}", "g", "y")]], [("x", "f", "{}"), ("y", "g", "{}")]),
        ([part("{}", "f"), part("", "g"), part("{}")], [("", "f", "{}"), ("", "g", "{}")]),
        ([part('{"a":1', "f", "x"), part("{}", "g", "y"), part("}", id="x")],
         [("x", "f", '{"a":1}'), ("y", "g", "{}")]),
        ([part({"a": 1}, "f", "x", 0)], [("x", "f", '{"a": 1}')]),
        ([None, "junk", 5, {"index": True}], [("", "", "")]),
        ([{"id": 7, "index": "0", "function": None}], [("", "", "")]),
    ],
    ids=["usual", "two ids at one index", "two whole at one index", "whole one said twice",
         "name repeated", "name in pieces", "late id", "whole calls in one delta",
         "no ids, no indexes", "joined by id", "object as arguments", "junk", "wrong types"],
)  # fmt: skip
def test_fragments_are_joined(fragments: list[Any], calls_: list[tuple[str, str, str]]) -> None:
    assert joined(*fragments) == calls_


@pytest.mark.req("MODEL-04")
async def test_the_legacy_function_call_is_understood(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    first = frame({"function_call": {"name": "add", "arguments": '{"a":'}})
    second = frame({"function_call": {"arguments": "1}"}})
    scripted.play(raw_frames([first, second, frame({}, "function_call")], done=True))
    message = await model.ask(ASK, message_id="m1")
    assert [(one["name"], one["args"]) for one in message.tool_calls] == [("add", {"a": 1})]


@pytest.mark.req("L14")
@pytest.mark.parametrize(
    ("arguments", "understood"),
    [
        ('{"a":1,"b":2}', {"a": 1, "b": 2}),
        ('"{\\"a\\":1,\\"b\\":2}"', {"a": 1, "b": 2}),
        ("", {}),
        ("  ", {}),
        ('{"a":"one","b":null}', {"a": "one", "b": None}),
        ('{"n":12345678901234567890}', {"n": 12345678901234567890}),
        ('{"n":123456789012345678901234567890}', None),
        ('{"n":' + "[" * 200 + "]" * 200 + "}", None),
        ('{"text":"line\nbreak"}', {"text": "line\nbreak"}),
        ('{"a":1,"b":', None),
        ("[1,2]", None),
        ("null", None),
        ("7", None),
        ('"text"', None),
        ("NaN", None),
        ('{"a":NaN}', None),
        ('{"a":1e999}', None),
        ('{"a":1}{"a":1}', None),
        ("[" * 100_000, None),
        ("x" * 1_000_000, None),
    ],
)
async def test_arguments_are_an_object_or_an_invalid_call(
    scripted: ScriptedServer, model: ModelHandle, arguments: str, understood: dict[str, Any] | None
) -> None:
    whole = {"index": 0, "id": "call_1", "function": {"name": "add", "arguments": arguments}}
    message = await answered(scripted, model, [[whole]])
    if understood is not None:
        assert [one["args"] for one in message.tool_calls] == [understood]
        assert message.invalid_tool_calls == []
    else:
        [broken] = message.invalid_tool_calls
        assert message.tool_calls == []
        assert broken["id"] == "call_1" and broken["name"] == "add" and broken["error"]
        assert len(broken["args"]) < ECHO + 100


@pytest.mark.req("L14", "L15")
async def test_a_name_that_no_tool_can_have_still_makes_a_valid_history(
    scripted: ScriptedServer, model: ModelHandle
) -> None:
    function = {"name": "查询 天气/v1", "arguments": "{}"}
    message = await answered(scripted, model, [[{"index": 0, "id": "c", "function": function}]])
    assert message.tool_calls[0]["name"] == "查询 天气/v1"


@pytest.mark.req("L14")
def test_a_call_without_a_name_is_invalid() -> None:
    joiner = CallJoiner()
    joiner.feed([part("{}", id="c", index=0)])
    valid, invalid = settle(joiner.calls, frozenset())
    assert valid == [] and "names no tool" in invalid[0]["error"]


@pytest.mark.req("L14", "L25")
def test_nothing_unstorable_is_left_in_arguments() -> None:
    arguments, _ = parse('{"k\\u0000":["x\\ud83d", "\\ud83d\\ude00"]}')
    assert arguments == {"k\ufffd": ["x\ufffd", "😀"]}
    assert json.dumps(arguments, ensure_ascii=False).encode()
