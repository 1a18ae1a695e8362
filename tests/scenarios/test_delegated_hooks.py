"""Hooks and policies where agents delegate: of the one that asks, and of the one that works."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

HOUSE = '''
"""A chief, those it gives tasks to, and hooks about all of them."""

import dataclasses

from pydantic import BaseModel

from extensions import ToolDenied

SEEN = []
FAILS = set()


class Order(BaseModel):
    """What the reporter takes."""

    days: int


def build():
    from typing import TypedDict

    from langgraph.graph import START, StateGraph

    class Report(TypedDict):
        days: int

    graph = StateGraph(Report)
    graph.add_node("fetch", lambda state: {"days": state["days"] * 10})
    graph.add_edge(START, "fetch")
    return graph


def note(event):
    SEEN.append((type(event).__name__, event.run.agent))


def before(event):
    SEEN.append(("before", event.run.agent, event.agent, event.task))
    if "before" in FAILS:
        raise RuntimeError("/srv/inside")
    if "forbidden" in event.task:
        raise ToolDenied("Not this one.")
    if event.agent == "reporter":
        return dataclasses.replace(event, task=event.task.replace("1", "two" if FAILS else "2"))
    return dataclasses.replace(event, task=event.task.replace("4711", "****"))


async def after(event):
    SEEN.append(("after", event.run.agent, event.agent, event.status, event.text))
    if "after" in FAILS:
        raise RuntimeError("/srv/inside")
    return dataclasses.replace(event, text=event.text.replace("cold", "mild"))


class Brief:
    def build(self, messages, system, summary):
        from extensions.policies import default_view

        SEEN.append(("view", system[-13:]))
        if "policy" in FAILS:
            raise ValueError("/srv/inside")
        return default_view(messages, system)


def make():
    if "factory" in FAILS:
        raise ValueError("/srv/inside")
    return Brief()


def setup(registry):
    registry.register_agent(
        "chief", "Leads.", "You lead.", ["now"], delegates=["researcher", "reporter"]
    )
    registry.register_agent(
        "researcher",
        "Finds out.",
        "You research.",
        ["now", "calculate", "ask_user"],
        policies={"context_view": "house"},
    )
    registry.register_subgraph("reporter", "Reports.", build, input_schema=Order)
    registry.register_policy("context_view", make)
    registry.register_hook("sub_run.before", before)
    registry.register_hook("sub_run.after", after)
    registry.register_hook("model_request.before", note, agents=["researcher"])
    registry.register_hook("tool_call.before", note, agents=["chief"])
    registry.register_hook("run.after", note)
'''


@pytest.fixture
async def talk(open_served: Opener, tmp_path: Path) -> AsyncIterator[Talk]:
    """The product with the house's agents and hooks."""
    with forgotten():
        add(tmp_path / "mine", "house", HOUSE)
        async with open_served(extensions_path=str(tmp_path / "mine"), hitl_tools="") as served:
            yield served


def house() -> Any:
    """Return the extension's module, as this start loaded it."""
    return sys.modules["extensions.house.extension"]


def seen(kind: str) -> list[tuple[str, ...]]:
    return [one[1:] for one in house().SEEN if one[0] == kind]


def give(task: str, agent: str = "researcher", id: str = "d1") -> tuple[str, dict[str, str], str]:
    return "delegate", {"agent": agent, "task": task}, id


CHIEF = {"agent": "chief"}


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_a_task_and_its_answer_are_what_the_hooks_of_the_chief_make_of_them(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", calls([give("look north with 4711")]), say("Done."))
    scripted.on("look north", say("It is cold."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.last["status"] == "success"
    assert scripted.requests[1].last_user == "look north with ****"
    assert "4711" not in json.dumps(scripted.requests[1].body)
    assert "It is mild." in scripted.requests[-1].messages[-1]["content"]
    [result] = reply.of("tool_result")
    assert result["content"] == "It is mild."
    assert seen("before") == [("chief", "researcher", "look north with 4711")]
    assert seen("after") == [("chief", "researcher", "completed", "It is cold.")]
    history = await talk.client.get(f"/api/chat/history/{reply.session_id}")
    parts = [part for item in history.json()["items"] for part in item["parts"]]
    [asked] = [part for part in parts if part["type"] == "tool_call"]
    assert asked["args"]["task"] == "look north with 4711"
    assert scripted.refused == []


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_each_agent_has_the_hooks_and_policies_that_name_it(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", call("now"), calls([give("look north")]), say("Done."))
    scripted.on("look north", call("calculate", {"expression": "1+1"}), say("It is cold."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.last["status"] == "success"
    assert seen("ModelRequest") == [("researcher",)] * 2
    assert seen("ToolCall") == [("chief",)] * 2
    assert seen("RunEnd") == [("chief",)]
    assert set(seen("view")) == {("You research.",)}
    product = talk.served.product
    async with product.database.work() as work:
        run = await work.runs.by_id(reply.run_id)
    began = run.input["began_with"]
    assert "house.note@model_request.before" in began["hooks"]
    assert list(began["policies"]) == ["context_view.house"]


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_a_task_that_a_hook_refuses_is_never_begun(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", calls([give("the forbidden one")]), say("I may not."))
    reply = await talk.chat("ask around", **CHIEF)
    [result] = reply.of("tool_result")
    assert result["error"] == "Not this one."
    assert json.loads(scripted.requests[-1].messages[-1]["content"])["status"] == "denied"
    assert [one["agent"] for one in reply.of("agent_start")] == ["chief"]
    assert len(scripted.requests) == 2
    assert reply.text == "I may not."


@pytest.mark.req("EXT-10", "EXEC-41")
@pytest.mark.parametrize(("point", "requests"), [("before", 1), ("after", 2)])
async def test_a_failed_hook_about_a_task_ends_the_run_once_its_result_is_stored(
    talk: Talk, scripted: ScriptedServer, point: str, requests: int
) -> None:
    house().FAILS.add(point)
    scripted.on("ask around", calls([give("look north")]), say("Never."))
    scripted.on("look north", say("It is cold."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.last["code"] == "hook_failed"
    assert f"The hook {point} of the extension house at sub_run.{point}" in reply.last["message"]
    assert len(scripted.requests) == requests
    [result] = reply.of("tool_result")
    assert "cold" not in str(result)
    assert "/srv/inside" not in str([one.data for one in reply.frames])
    house().FAILS.clear()
    again = await talk.chat("and now?", session_id=reply.session_id)
    assert again.last["status"] == "success"
    assert scripted.refused == []


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_a_changed_task_has_to_have_the_shape_that_its_graph_takes(
    talk: Talk, scripted: ScriptedServer
) -> None:
    asked = calls([give('{"days": 1}', "reporter")])
    scripted.play(asked, say("Done."))
    reply = await talk.chat("report", **CHIEF)
    [result] = reply.of("tool_result")
    assert json.loads(result["content"]) == {"days": 20}
    assert seen("after") == [("chief", "reporter", "completed", '{"days": 20}')]
    data = json.loads(scripted.requests[-1].messages[-1]["content"])["data"]
    assert data == {"days": 20}
    house().FAILS.add("shape")
    scripted.play(asked, say("Never."))
    reply = await talk.chat("again", session_id=reply.session_id)
    assert reply.last["code"] == "hook_result_invalid"
    assert "its task does not do" in reply.last["message"]


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_a_task_that_waited_for_an_answer_is_not_asked_about_again(
    talk: Talk, scripted: ScriptedServer
) -> None:
    question = {"questions": [{"question": "Which way?"}]}
    scripted.on("ask around", calls([give("look north with 4711")]), say("Done."))
    scripted.on("look north", call("ask_user", question), say("It is cold."))
    asked = await talk.chat("ask around", **CHIEF)
    assert asked.last["type"] == "interrupt"
    house().FAILS.add("before")
    reply = await talk.resume(asked, answers=["left"])
    assert reply.last.get("status") == "success", reply.last
    assert len(seen("before")) == 1
    assert len(seen("after")) == 1


@pytest.mark.req("EXT-04", "EXEC-41")
@pytest.mark.parametrize("fails", ["policy", "factory"])
async def test_a_broken_policy_of_the_agent_that_works_is_a_failed_task(
    talk: Talk, scripted: ScriptedServer, fails: str
) -> None:
    house().FAILS.add(fails)
    scripted.on("ask around", calls([give("look north")]), say("It did not work."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.text == "It did not work."
    [result] = reply.of("tool_result")
    assert "The context_view policy house failed (ValueError)" in result["error"]
    assert "/srv/inside" not in str([one.data for one in reply.frames])
