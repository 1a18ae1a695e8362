"""Graphs of extensions work on delegated tasks: counted, seen, asked, with shapes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
import typing_extensions
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

from core.errors import ConfigError
from core.registry import Registry
from core.tooling import AgentSpec
from extensions.core.extension import setup as core
from runtime.registry import assemble
from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history
from tests.support.app import Frame, frames_of
from tests.support.delegation import delegating, of_agent, parts_of
from tests.support.extension_folders import add, forgotten
from tests.support.foreign_graphs import graph_code
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

CHIEF = {"agent": "chief"}

PLANNER = '''
@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2

@tool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""

def ask(state):
    name = interrupt("Whose letter is it?")
    return {"messages": [AIMessage(f"A letter for {name}.")]}

def setup(registry):
    registry.register_agent(
        "chief", "Leads.", "You lead.", ["now"], delegates=["planner", "asker"], label="Chief"
    )
    registry.register_subgraph("planner", "Plans.", lambda: agent([double, wait]), label="Planner")
    registry.register_subgraph("asker", "Writes letters.", lambda: line(("ask", ask)))
'''

REPORTS = """
from dataclasses import dataclass
from typing import TypedDict
from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

class Order(BaseModel):
    city: str
    days: int = Field(ge=1, le=9)

class Report(TypedDict):
    city: str
    days: int
    lines: list

@dataclass
class Own:
    unit: str = "C"

def fetch(state, runtime: Runtime[Own]):
    kind = type(runtime.context).__name__
    lines = [f"{state['city']} day {day + 1}: {kind}" for day in range(state["days"])]
    return {"lines": lines}

def build():
    graph = StateGraph(Report, context_schema=Own)
    graph.add_node("fetch", fetch)
    graph.add_edge(START, "fetch")
    return graph

def setup(registry):
    registry.register_agent("chief", "Leads.", "You lead.", ["now"], delegates=["reporter"])
    registry.register_subgraph("reporter", "Reports the weather.", build, input_schema=Order)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path / "ext"


@pytest.mark.req("EXEC-41", "EXT-04", "EXEC-14")
async def test_two_graphs_work_side_by_side_seen_and_counted_and_their_text_stays_inside(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "planner", graph_code(scripted, PLANNER))
    scripted.on("plan", delegating("double 2", "double 3", agent="planner"), say("Done."))
    for number in (2, 3):
        scripted.on(
            f"double {number}",
            calls([("double", {"number": number}, "call_a")], text="Let me see."),
            say(f"It is {number * 2}."),
        )
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("plan", **CHIEF)
        assert (reply.text, reply.last["status"]) == ("Done.", "success")
        for number in (1, 2):
            assert of_agent(reply.frames, f"planner:call_{number}") == [
                "agent_start",
                "executing",
                "tool_call",
                "tool_result",
                "agent_done",
            ]
        called = {event["tool_call_id"] for event in reply.of("tool_call")}
        assert len(called) == 4
        assert {event["tool_call_id"] for event in reply.of("tool_result")} == called
        messages = await history(served, reply.session_id)
        shown = [(p["result"]["preview"], p["activity"][0]["args"]) for p in parts_of(messages)]
        assert shown == [("It is 4.", {"number": 2}), ("It is 6.", {"number": 3})]
        async with served.served.product.database.work() as work:
            rows = await work.usage.of_run(reply.run_id)
        assert sorted(row.agent for row in rows) == ["chief"] * 2 + ["planner"] * 4
        assert reply.last["usage"]["output_tokens"] == sum(row.output_tokens for row in rows)


@pytest.mark.req("EXEC-41", "EXT-04", "EXEC-22")
async def test_what_a_delegated_graph_asks_reaches_the_user(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "planner", graph_code(scripted, PLANNER))
    scripted.on("write", delegating("write a", "write b", agent="asker"), say("Written."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("write", **CHIEF)
        assert reply.last["ask_user"]["questions"][0]["question"] == "Whose letter is it?"
        assert reply.last["agent_id"] == "asker:call_1"
        second = await served.resume(reply, answers=["Ada"])
        assert second.last["agent_id"] == "asker:call_2"
        done = await served.resume(second, answers=["Bob"])
        assert done.text == "Written."
        previews = [
            part["result"]["preview"] for part in parts_of(await history(served, reply.session_id))
        ]
        assert previews == ["A letter for Ada.", "A letter for Bob."]


@pytest.mark.req("EXEC-41", "EXEC-09", "EXEC-07")
async def test_a_delegated_graph_is_held_to_the_runs_budget_and_refused_in_plan_mode(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "planner", graph_code(scripted, PLANNER))
    scripted.on("plan", delegating("double on", agent="planner"), say("Done."))
    rounds = [calls([("double", {"number": 1}, f"r{turn}")]) for turn in range(9)]
    scripted.on("double on", *rounds)
    async with open_served(extensions_path=str(folder), max_model_calls=5) as served:
        planned = await served.chat("plan", mode="plan", **CHIEF)
        assert "knows no plan mode" in planned.of("tool_result")[0]["error"]
        assert len(scripted.requests) == 2
        reply = await served.chat("plan", mode="full", **CHIEF)
        assert reply.last["code"] == "model_call_limit"
        assert "limit of model calls" in reply.of("agent_error")[0]["message"]
        assert len(scripted.requests) == 2 + 5


@pytest.mark.req("EXEC-41", "CHAT-08")
async def test_cancelling_a_delegated_graph_closes_its_open_call(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "planner", graph_code(scripted, PLANNER))
    scripted.on("plan", delegating("go", agent="planner"), say("Never."))
    scripted.on("go", call("wait", id="w"))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "plan", **CHIEF})
        async with begun as response:
            frames, seen = frames_of(response), list[Frame]()
            while not seen or seen[-1].data.get("tool") != "wait":
                seen.append(await anext(frames))
            run = seen[0].data
            await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            seen += [frame async for frame in frames]
        told = [frame.data for frame in seen if frame.type == "tool_result"]
        assert [event["tool"] for event in told] == ["wait", "delegate"]
        [part] = parts_of(await history(served, run["session_id"]))
        assert [one["result"]["status"] for one in part["activity"]] == ["cancelled"]


@pytest.mark.req("EXEC-41", "EXT-04", "EXT-11")
async def test_a_graph_without_messages_takes_tasks_of_its_shape_and_gives_its_output(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "reports", graph_code(scripted, REPORTS))
    scripted.on(
        "weather",
        delegating("tell me of Oslo", agent="reporter"),
        delegating('{"city": "Oslo", "days": 30}', agent="reporter"),
        delegating('{"city": "Oslo", "days": 2}', agent="reporter"),
        say("Cold."),
    )
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("weather", **CHIEF)
        no_json, no_fit, done = reply.of("tool_result")
        assert "no JSON" in no_json["error"]
        assert "days: Input should be less than or equal to 9" in no_fit["error"]
        # The graph has a context of its own kind, which ours is not taken for.
        lines = ["Oslo day 1: NoneType", "Oslo day 2: NoneType"]
        assert json.loads(done["content"]) == {"city": "Oslo", "days": 2, "lines": lines}
        told = json.loads(scripted.requests[-1].messages[-1]["content"])
        assert told["data"]["lines"] == lines
        offered = scripted.requests[0].body["tools"][-1]["function"]["description"]
        assert '"days"' in offered

        refused = await served.chat("weather", agent="reporter")
        assert refused.status == 422
        assert "takes tasks of other agents only" in refused.error["message"]
        agents = {
            one["id"]: one for one in (await served.client.get("/api/agents")).json()["items"]
        }
        assert agents["chief"]["delegates"] == ["reporter"]
        assert (agents["reporter"]["delegate_only"], agents["chief"]["delegate_only"]) == (
            True,
            False,
        )
        model = (await served.client.get("/api/model")).json()
        assert {one["id"]: one["delegates"] for one in model["agent"]["agents"]}["chief"] == [
            "reporter"
        ]


class Order(BaseModel):
    city: str


class Plain(typing_extensions.TypedDict):
    city: str


class Old(TypedDict):
    city: str


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def _graph() -> Any:
    graph = StateGraph(Plain)
    graph.add_node("work", lambda state: {} if state else None)
    graph.add_edge(START, "work")
    return graph


def _talking() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("work", lambda state: {} if state else None)
    graph.add_edge(START, "work")
    return graph


def _assembled(schema: Any, build: Any = _graph) -> AgentSpec:
    registry = Registry()
    core(registry)
    registry.register_subgraph("reporter", "Reports.", build, schema)
    registry.register_agent("chief", delegates=["reporter"])
    return assemble(registry).agents["reporter"]


@pytest.mark.req("EXT-04")
@pytest.mark.parametrize("schema", [Order, Plain, SCHEMA], ids=["model", "typed-dict", "json"])
def test_a_shape_is_written_in_any_of_three_ways(schema: Any) -> None:
    agent = _assembled(schema)
    assert agent.delegate_only
    assert agent.shape is not None
    assert agent.shape.check({"city": "Oslo"}) == {"city": "Oslo"}
    assert agent.shape.schema["required"] == ["city"]
    for wrong in ({}, {"city": 1}, [], "Oslo"):
        with pytest.raises(Exception, match="does not fit"):
            agent.shape.check(wrong)
    assert not _assembled(schema, _talking).delegate_only


@pytest.mark.req("EXT-04", "EXT-05")
@pytest.mark.parametrize("schema", [str, {"type": "string"}, 7, Old])
def test_what_is_no_shape_of_an_object_stops_the_start(schema: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        _assembled(schema)
    assert any("input_schema" in fault.what for fault in caught.value.faults)
