"""kill -9 while another agent works on a task: nothing is done twice, what is unknown is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.client import Client, new_key, parts_of, types_of
from tests.acceptance.conftest import Connect, provider
from tests.support.delegation import delegating
from tests.support.extension_folders import add
from tests.support.foreign_graphs import graph_code
from tests.support.process import end, server, start_server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, Wait, call, calls, hold, say
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.req("EXEC-41", "EXEC-03", "EXEC-33")]

TEAM = '''
from extensions import define_tool

def note(name):
    with open(PATH, "a") as file:
        file.write(name + " ")

@define_tool(side_effect="external")
def send(name: str) -> str:
    """Send something.

    Args:
        name: what.
    """
    note(name)
    return "sent"

@define_tool(side_effect="external")
async def send_slowly(name: str) -> str:
    """Send something, which never ends.

    Args:
        name: what.
    """
    note(name)
    await asyncio.Event().wait()
    return "sent"

@tool
def mark(name: str) -> str:
    """Mark a name."""
    note(name)
    return "marked"

def marker():
    asked = model(streaming=True, stream_usage=True).bind_tools([mark])
    async def think(state):
        return {"messages": [await asked.ainvoke(state["messages"])]}
    graph = line(("think", think))
    graph.add_node("tools", ToolNode([mark]))
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph

def setup(registry):
    registry.register_agent("chief", "Leads.", "You lead.", ["now"], delegates=["sender", "marker"])
    registry.register_agent(
        "sender", "Sends.", "You send.", [send, send_slowly, "calculate"], label="Sender"
    )
    registry.register_subgraph("marker", "Marks.", marker)
'''


def options(scripted: ScriptedServer, folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a server with the team; what they do is noted in `notes`."""
    code = TEAM.replace("PATH", repr(str(folder / "notes")))
    if not (folder / "ext").exists():
        add(folder / "ext", "team", graph_code(scripted, code))
    return {
        **provider(scripted),
        "HITL_TOOLS": "calculate",
        "GW_EXTENSIONS_PATH": str(folder / "ext"),
        **more,
    }


def ended(client: Client, session_id: str) -> str:
    """Return how the newest run came to its end."""
    rest = ("success", "interrupted", "failed", "waiting_input")
    wait_until(lambda: client.run_status(session_id) in rest, "the run has come to an end")
    return client.run_status(session_id)


def inner(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what was done inside tasks, with how it ended."""
    return [
        (one["tool"], one["result"]["status"])
        for part in parts_of(messages, "tool_call")
        for one in part.get("activity", ())
    ]


@pytest.mark.parametrize("agent", ["sender", "marker"])
def test_a_task_goes_on_where_it_stood_and_repeats_no_tool_that_ended(
    data_dir: Path, scripted: ScriptedServer, tmp_path: Path, connect: Connect, agent: str
) -> None:
    gate = Gate()
    scripted.on("get it sent", delegating("send it", agent=agent), say("All is sent."))
    tool = {"sender": "send", "marker": "mark"}[agent]
    scripted.on_each(
        "send it",
        call(tool, {"name": "once"}, id="the-call"),
        replace(say("cut"), before_headers=(Wait(gate),)),
        say("It is sent."),
    )
    settings = options(scripted, tmp_path)
    started = start_server(data_dir, **settings).wait_ready()
    try:
        key = new_key(started)
        fields = {"message": "get it sent", "agent": "chief"}
        stream = connect(started, key).stream("POST", "/api/chat", data=fields)
        seen = next(frame for frame in stream if frame["type"] == "tool_result")
        assert gate.reached.wait(20)
        started.kill()
    finally:
        end(started)
    gate.open()
    with server(data_dir, **settings) as again:
        client = connect(again, key)
        assert ended(client, seen["session_id"]) == "success"
        messages = client.history(seen["session_id"])
        assert [part["text"] for part in parts_of(messages, "text")] == [
            "get it sent",
            "All is sent.",
        ]
        assert inner(messages) == [(tool, "completed")]
        frames = list(client.stream("GET", f"/api/runs/{seen['run_id']}/events"))
        assert types_of(frames).count("agent_start") == 2
        assert types_of(frames).count("tool_call") == 2
        assert types_of(frames).count("tool_result") == 2
        assert types_of(frames).count("agent_done") == 2
        # What was used before the crash counts; the answer that was cut told no usage.
        counted = [*scripted.requests[:2], *scripted.requests[3:]]
        used = frames[-1]["usage"]
        assert used["input_tokens"] == sum(seen.prompt_tokens for seen in counted)
    assert (tmp_path / "notes").read_text() == "once "
    assert scripted.refused == []


def test_a_tool_of_a_task_whose_outcome_is_unknown_is_asked_about(
    data_dir: Path, scripted: ScriptedServer, tmp_path: Path, connect: Connect
) -> None:
    scripted.on("get it sent", delegating("send it", agent="sender"), say("All is sent."))
    scripted.on(
        "send it",
        calls([("send", {"name": "a"}, "a"), ("send_slowly", {"name": "b"}, "b")]),
        say("It is sent."),
    )
    settings = options(scripted, tmp_path)
    started = start_server(data_dir, **settings).wait_ready()
    try:
        key = new_key(started)
        fields = {"message": "get it sent", "agent": "chief"}
        stream = connect(started, key).stream("POST", "/api/chat", data=fields)
        seen = next(frame for frame in stream if frame["type"] == "tool_result")
        wait_until(lambda: "b " in (tmp_path / "notes").read_text(), "the slow one has begun")
        started.kill()
    finally:
        end(started)
    with server(data_dir, **settings) as again:
        client = connect(again, key)
        session_id = seen["session_id"]
        assert ended(client, session_id) == "waiting_input"
        frames = list(client.stream("GET", f"/api/runs/{seen['run_id']}/events"))
        (asked,) = frames[-1]["tool_approval"]["calls"]
        assert (asked["tool"], asked["args"]) == ("send_slowly", {"name": "b"})
        assert "It may have happened" in asked["reason"]
        assert frames[-1]["agent_id"]
        decision = {"tool_call_id": asked["tool_call_id"], "type": "reject"}
        assert types_of(client.resume(frames[-1], decisions=[decision]))[-1] == "done"
        assert inner(client.history(session_id)) == [
            ("send", "completed"),
            ("send_slowly", "failed"),
        ]
    assert sorted((tmp_path / "notes").read_text().split()) == ["a", "b"]


def test_a_crash_after_an_answer_asks_nothing_again_and_keeps_the_other_question(
    data_dir: Path, scripted: ScriptedServer, tmp_path: Path, connect: Connect
) -> None:
    gate = Gate()
    scripted.on("count", delegating("add one", "add two", agent="sender"), say("Counted."))
    scripted.on_each(
        "add one",
        call("calculate", {"expression": "1+1"}),
        hold(say("cut"), gate, after=1),
        say("one is two"),
    )
    scripted.on("add two", call("calculate", {"expression": "2+2"}), say("two is four"))
    settings = options(scripted, tmp_path)
    started = start_server(data_dir, **settings).wait_ready()
    try:
        key = new_key(started)
        client = connect(started, key)
        asked = client.chat("count", agent="chief")[-1]
        assert asked["agent_id"] == "sender:call_1"
        body = {
            "session_id": asked["session_id"],
            "interrupt_token": asked["interrupt_token"],
            "decisions": [{"type": "approve"}],
        }
        stream = client.stream("POST", "/api/chat/resume", json=body)
        next(frame for frame in stream if frame["type"] == "tool_result")
        assert gate.reached.wait(20)
        started.kill()
    finally:
        end(started)
    gate.open()
    with server(data_dir, **settings) as again:
        client = connect(again, key)
        session_id = asked["session_id"]
        assert ended(client, session_id) == "waiting_input"
        pending = client.get("/api/chat/interrupt", session_id=session_id)
        assert pending["agent_id"] == "sender:call_2"
        frames = client.resume(asked | pending, decisions=[{"type": "approve"}])
        assert types_of(frames)[-1] == "done"
        messages = client.history(session_id)
        previews = [part["result"]["preview"] for part in parts_of(messages, "tool_call")]
        assert previews == ["one is two", "two is four"]
        assert inner(messages) == [("calculate", "completed")] * 2
    assert scripted.refused == []


@pytest.mark.parametrize("point", ["tool.before=kill", "tool.after.before_save=kill"])
def test_a_crash_beside_an_inner_tool_counts_tasks_once(
    data_dir: Path, scripted: ScriptedServer, tmp_path: Path, connect: Connect, point: str
) -> None:
    # The tool has no side effects, so that the run goes on by itself.
    tasks = [f"task {number}" for number in range(8)]
    scripted.on("do all", delegating("reckon", *tasks, agent="sender"), say("All is done."))
    scripted.on("task", say("It is done."))
    scripted.on("reckon", call("calculate", {"expression": "1+1"}), say("It is done."))
    settings = options(scripted, tmp_path, HITL_TOOLS="")
    started = start_server(data_dir, **settings, GW_FAULTS=point).wait_ready()
    try:
        key = new_key(started)
        fields = {"message": "do all", "agent": "chief"}
        with pytest.raises(httpx.HTTPError):
            list(connect(started, key).stream("POST", "/api/chat", data=fields))
    finally:
        end(started)
    with server(data_dir, **settings) as again:
        client = connect(again, key)
        [session] = client.get("/api/sessions")["items"]
        assert ended(client, session["id"]) == "success"
        calls_made = parts_of(client.history(session["id"]), "tool_call")
        assert [one["result"]["status"] for one in calls_made] == ["completed"] * 8 + ["failed"]
        assert inner(client.history(session["id"])) == [("calculate", "completed")]
