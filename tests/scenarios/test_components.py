"""A tool shows cards: in the stream, in the history and in `GET /api/model` (EXT-04)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from core.registry import Registry
from runtime.registry import assemble
from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.support.app import Reply
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

WEATHER = '''
"""Weather on cards."""

import threading

from extensions import ToolContext, define_tool

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 40},
        "degrees": {"type": "number", "minimum": -90, "maximum": 60},
    },
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
KEPT = []


@define_tool(idempotent=True)
async def forecast(ctx: ToolContext, degrees: list[int], kind: str = "weather.today") -> str:
    """Show the weather.

    Args:
        degrees: of each card.
        kind: what card.
    """
    for number in degrees:
        data = {"city": "<b>Bern</b>", "degrees": number}
        ctx.component(kind, data)
        data["city"] = "changed"
    return f"{len(degrees)} shown"


@define_tool()
def crowd(ctx: ToolContext) -> int:
    """Show cards from many threads."""
    data = {"city": "Bern", "degrees": 1}
    show = lambda: ctx.component("weather.today", data)
    threads = [threading.Thread(target=show) for _ in range(15)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return 15


@define_tool()
def odd(ctx: ToolContext, late: bool = False) -> str:
    """Call the context in odd ways.

    Args:
        late: use that of an earlier call.
    """
    if late:
        KEPT[0].progress("too late")
        KEPT[0].set_todos([{"content": "too late"}])
        return KEPT[0].component("weather.today", {"city": "Bern", "degrees": 1})
    KEPT.append(ctx)
    ctx.progress("\\ud800 half\\x00", float("nan"))
    ctx.progress({"no": "text"}, "no number")
    for wrong in (None, [], {}, 7, "weather"):
        try:
            ctx.component(wrong, wrong)
        except Exception as error:
            assert "There is no component" in str(error), error
    try:
        ctx.set_todos([{"content": 1, "status": "odd"}])
    except Exception as error:
        return str(error)


def setup(registry):
    example = {"city": "Bern", "degrees": 12}
    registry.register_component("weather.today", SCHEMA, example, label="Weather", description="D.")
    registry.register_agent("weather", tools=[forecast, crowd, odd])
    registry.register_agent("boss", delegates=["weather"])
'''


@pytest.fixture
def folder(tmp_path: Path):
    with forgotten():
        add(tmp_path / "mine", "weather", WEATHER)
        yield str(tmp_path / "mine")


async def parts_of(talk: Talk, reply: Reply) -> list[dict[str, Any]]:
    history = await talk.client.get(f"/api/chat/history/{reply.session_id}")
    return [part for item in history.json()["items"] for part in item["parts"]]


def card(degrees: int) -> dict[str, Any]:
    return {"city": "<b>Bern</b>", "degrees": degrees}


@pytest.mark.req("EXT-04", "ART-10")
async def test_a_card_is_in_the_stream_the_history_and_the_model(
    open_served: Opener, scripted: ScriptedServer, folder: str
) -> None:
    async with open_served(extensions_path=folder) as talk:
        scripted.play(call("forecast", {"degrees": [3, 4]}, id="c1"), say("There."))
        reply = await talk.chat("weather?", agent="weather")
        shown = reply.of("component")
        assert [(one["component_type"], one["data"]) for one in shown] == [
            ("weather.today", card(3)),
            ("weather.today", card(4)),
        ]
        order = [one.type for one in reply.frames if one.type in ("tool_call", "component")]
        assert order == ["tool_call", "component", "component"]
        assert reply.frames[[f.type for f in reply.frames].index("component") + 2].type == (
            "tool_result"
        )
        parts = await parts_of(talk, reply)
        kinds = [part["type"] for part in parts]
        assert kinds == ["text", "tool_call", "component", "component", "text"]
        for part, event in zip(parts[2:4], shown, strict=True):
            assert part == {
                "type": "component",
                "component_type": "weather.today",
                "component_id": event["component_id"],
                "data": event["data"],
            }
        assert shown[0]["component_id"] != shown[1]["component_id"]
        # What a card shows is for people; the model is told what the tool returns.
        assert "Bern" not in json.dumps(scripted.requests[-1].body["messages"])
        model = (await talk.client.get("/api/model")).json()["agent"]["components"]
        [listed] = model
        assert listed["component_type"] == "weather.today"
        assert (listed["label"], listed["extension"]) == ("Weather", "weather")
        assert listed["example"] == {"city": "Bern", "degrees": 12}
        assert listed["schema"]["additionalProperties"] is False


@pytest.mark.req("EXT-04", "EXT-09", "ART-10")
@pytest.mark.parametrize(
    ("args", "told", "cards"),
    [
        ({"degrees": [3, 99]}, "was not shown: the data.degrees is 99, not between -90 and 60", 1),
        ({"degrees": [1], "kind": "weather.todya"}, "Did you mean 'weather.today'?", 0),
        ({"degrees": list(range(25))}, "One call may show 20 components.", 20),
    ],
)
async def test_data_that_do_not_fit_are_a_failed_result_that_says_why(
    open_served: Opener, scripted: ScriptedServer, folder: str, args: Any, told: str, cards: int
) -> None:
    async with open_served(extensions_path=folder) as talk:
        scripted.play(call("forecast", args), say("I see."))
        reply = await talk.chat("weather?", agent="weather")
        assert told in reply.of("tool_result")[0]["error"]
        assert told in scripted.requests[-1].messages[-1]["content"]
        assert reply.last["type"] == "done"
        assert len(reply.of("component")) == cards
        parts = await parts_of(talk, reply)
        assert [part["type"] for part in parts].count("component") == cards


@pytest.mark.req("EXT-04")
async def test_cards_from_many_threads_have_ids_of_their_own(
    open_served: Opener, scripted: ScriptedServer, folder: str
) -> None:
    async with open_served(extensions_path=folder) as talk:
        scripted.play(call("crowd"), say("There."))
        reply = await talk.chat("weather?", agent="weather")
        assert len({one["component_id"] for one in reply.of("component")}) == 15


@pytest.mark.req("EXT-04", "EXT-09")
async def test_what_a_tool_does_to_its_context_ends_no_run_and_not_after_its_call(
    open_served: Opener, scripted: ScriptedServer, folder: str
) -> None:
    async with open_served(extensions_path=folder) as talk:
        scripted.play(call("odd"), call("odd", {"late": True}), say("Well."))
        reply = await talk.chat("go", agent="weather")
        first, second = reply.of("tool_result")
        assert "A plan is a list of items" in first["content"]
        assert "This call has ended" in second["error"]
        assert [(one["message"], one.get("fraction")) for one in reply.of("progress")] == [
            ("\ufffd half\ufffd", None),
            ("{'no': 'text'}", None),
        ]
        assert reply.of("updated_todo_list") == []
        assert reply.last["type"] == "done"


@pytest.mark.req("EXT-04", "EXEC-41")
async def test_a_card_that_a_delegated_agent_shows_stands_behind_the_call_that_delegates(
    open_served: Opener, scripted: ScriptedServer, folder: str
) -> None:
    async with open_served(extensions_path=folder) as talk:
        task = {"agent": "weather", "task": "look north"}
        scripted.on("ask around", call("delegate", task, id="d1"), say("Cold."))
        scripted.on("look north", call("forecast", {"degrees": [3]}), say("3 degrees."))
        reply = await talk.chat("ask around", agent="boss")
        [shown] = reply.of("component")
        assert shown["data"] == card(3)
        parts = await parts_of(talk, reply)
        assert [part["type"] for part in parts] == ["text", "tool_call", "component", "text"]
        assert parts[2]["component_id"] == shown["component_id"]


OPEN = {"type": "object", "properties": {}}
CLOSED = OPEN | {"additionalProperties": False}


@pytest.mark.req("EXT-04", "EXT-05", "ART-11")
def test_faulty_components_are_collected_with_their_cures() -> None:
    registry = Registry(where="a/extension.py", extension="acme")
    registry.register_agent("assistant")
    add_one: Any = registry.register_component
    add_one("acme.good", CLOSED, {}, label="Good \ud800")
    add_one("acme.good", CLOSED, {})
    add_one("Acme.Good", CLOSED, {})
    add_one("other.good", CLOSED, {})
    add_one(7, CLOSED, {})
    add_one("acme.open", OPEN, {})
    add_one("acme.list", CLOSED | {"properties": {"x": {"type": ["string"]}}}, {})
    add_one("acme.object", object(), {})
    add_one("acme.example", CLOSED, {"x": 1})
    add_one("acme.text", CLOSED, {}, label=1)
    with pytest.raises(ConfigError) as caught:
        assemble(registry)
    assert [fault.what for fault in caught.value.faults] == [
        "A component of this type is registered already.",
        "This type is not allowed.",
        "This type is one of another extension.",
        "This type is not allowed.",
        'Its schema cannot be taken: the schema is open: write "additionalProperties": false.',
        "Its schema cannot be taken: the schema → x has no type of array, boolean, integer, null, "
        "number, object, string.",
        "Its schema cannot be taken: it is no JSON.",
        "Its example does not fit its schema: the data has 'x', which is not declared.",
        "label is no text.",
    ]
    assert all(
        fault.where.startswith("a/extension.py: component ") for fault in caught.value.faults
    )
    assert all(fault.cure for fault in caught.value.faults)
