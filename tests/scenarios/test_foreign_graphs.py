"""Graphs that an extension registers whole run as agents: streamed, stored, counted, asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.registry import Registry
from runtime.registry import assemble
from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, results, texts, types, whole
from tests.support.app import frames_of
from tests.support.extension_folders import add, forgotten
from tests.support.foreign_graphs import graph_code
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, calls, hold, say

WORKS = {"agent": "worker"}

WORKER = '''
@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2

@tool
async def wait() -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ""

def setup(registry):
    registry.register_subgraph("worker", "Doubles.", lambda: agent([double, wait]), label="Worker")
'''

ASKER = """
async def draft(state):
    await model().ainvoke("draft something")
    return {}

def ask(state):
    name = interrupt("Whose letter is it?")
    return {"messages": [AIMessage(f"A letter for {name}.")]}

def setup(registry):
    build = lambda: line(("draft", draft), ("ask", ask)).compile()
    registry.register_subgraph("asker", "Writes letters.", build)
"""

ODD = """
def nothing(state):
    return {}

def looper():
    graph = line(("round", nothing))
    graph.add_edge("round", "round")
    return graph

def setup(registry):
    registry.register_subgraph("looper", "Never ends.", looper)
    registry.register_subgraph("faulty", "Falls.", lambda: line(("fall", lambda state: 1 / 0)))
    registry.register_subgraph("mute", "Says nothing.", lambda: line(("nothing", nothing)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path / "ext"


@pytest.mark.req("EXEC-04", "EXT-04", "EXT-09", "CHAT-02")
async def test_a_foreign_graph_streams_calls_tools_and_is_kept(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "worker", graph_code(scripted, WORKER))
    scripted.on(
        "double 21",
        calls([("double", {"number": 21}, "call_a")], text="Let me see."),
        say("It is forty-two."),
    )
    scripted.on("thanks", say("You are welcome."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("double 21", agent="worker")
        assert [event["type"] for event in whole(reply)] == [
            "user_message",
            "agent_start",
            "thinking",
            "token",
            "executing",
            "tool_call",
            "tool_result",
            "token",
            "citations",
            "agent_done",
            "done",
        ]
        assert reply.of("token")[0]["message_id"] != reply.of("token")[-1]["message_id"]
        assert reply.text == "Let me see.It is forty-two."
        assert reply.of("tool_result")[0]["content"] == "42"
        usage = reply.last["usage"]
        assert (usage["usage_source"], usage["output_tokens"] > 0) == ("provider", True)

        again = await served.chat("thanks", session_id=reply.session_id)
        assert again.last["status"] == "success"
        messages = await history(served, reply.session_id)
        assert texts(messages) == [
            ("user", "double 21"),
            ("assistant", "Let me see."),
            ("assistant", "It is forty-two."),
            ("user", "thanks"),
            ("assistant", "You are welcome."),
        ]
        assert results(messages) == {"call_a": "completed"}
        roles = [message["role"] for message in scripted.requests[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "user"]
        drawing = await served.client.get("/api/agents/worker/graph")
        assert "tools" in drawing.text


@pytest.mark.req("EXEC-04", "EXT-04", "EXEC-22")
async def test_a_foreign_graphs_interrupt_is_asked_and_its_drafts_are_taken_back(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "asker", graph_code(scripted, ASKER))
    scripted.on("draft something", say("Dear nobody,"))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("write", agent="asker")
        assert reply.last["type"] == "interrupt"
        [question] = reply.last["ask_user"]["questions"]
        assert (question["question"], question["kind"]) == ("Whose letter is it?", "text")
        done = await served.resume(reply, answers=["Ada"])
        assert done.last["status"] == "success"
        assert done.last["usage"]["usage_source"] == "estimate"
        assert texts(await history(served, reply.session_id)) == [
            ("user", "write"),
            ("assistant", "A letter for Ada."),
        ]
        follow = await served.follow(f"/api/runs/{reply.run_id}/events")
        assert types(follow).count("message_reset") == 1


@pytest.mark.req("EXEC-04", "EXEC-05", "EXEC-07", "P8")
async def test_a_foreign_graph_that_goes_wrong_ends_in_a_named_error(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "looper", graph_code(scripted, ODD))
    add(folder, "worker", graph_code(scripted, WORKER))
    async with open_served(extensions_path=str(folder), max_steps=7) as served:
        assert (await served.chat("go", agent="looper")).last["code"] == "step_limit"
        assert (await served.chat("go", agent="mute")).last["code"] == "graph_gave_nothing"
        failed = (await served.chat("go", agent="faulty")).last
        assert failed["code"] == "graph_failed"
        assert "division" not in str(failed)
        plan = await served.chat("go", agent="worker", mode="plan")
        assert plan.last["code"] == "invalid"
        assert not scripted.requests


@pytest.mark.req("EXEC-04", "EXEC-09")
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_model_calls": 2}, "model_call_limit"),
        ({"run_token_budget": 3}, "token_budget"),
        ({"run_seconds": 1}, "time_budget"),
    ],
)
async def test_a_runs_budgets_hold_for_a_foreign_graph_too(
    open_served: Opener,
    scripted: ScriptedServer,
    folder: Path,
    limits: dict[str, int],
    code: str,
) -> None:
    add(folder, "worker", graph_code(scripted, WORKER))
    rounds = [calls([("double", {"number": 1}, f"round-{turn}")], text="On.") for turn in range(4)]
    if code == "time_budget":
        rounds = [hold(rounds[0], Gate())]
    scripted.on("for ever", *rounds)
    async with open_served(extensions_path=str(folder), **limits) as served:
        reply = await served.chat("for ever", **WORKS)
        assert reply.last["code"] == code
        scripted.on("well", say("Well."))
        asked = len(scripted.requests)
        after = await served.chat("well", session_id=reply.session_id)
        assert len(scripted.requests) <= asked + 1
        assert code == "token_budget" or after.text == "Well."


@pytest.mark.req("EXEC-04", "CHAT-07")
async def test_a_cancelled_foreign_graph_keeps_what_it_said(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "worker", graph_code(scripted, WORKER))
    turn = say("These words stay.", size=100)
    scripted.on("long", hold(turn, Gate(), after=2))
    scripted.on("short", say("Short."))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "long", **WORKS})
        async with begun as response:
            frames = frames_of(response)
            seen = [await anext(frames)]
            while seen[-1].type != "token":
                seen.append(await anext(frames))
            run = seen[0].data
            cancelled = await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            assert cancelled.status_code == 202
            seen += [frame async for frame in frames]
        assert seen[-1].data["status"] == "cancelled"
        session = run["session_id"]
        assert (await served.chat("short", session_id=session)).text == "Short."
        assert texts(await history(served, session)) == [
            ("user", "long"),
            ("assistant", "These words stay."),
            ("user", "short"),
            ("assistant", "Short."),
        ]
        sent = [str(message["content"]) for message in scripted.requests[-1].messages]
        assert sent == ["long", "These words stay.", "short"]


@pytest.mark.req("EXEC-04", "CHAT-07", "P10")
async def test_calls_of_a_cancelled_foreign_graph_get_their_results(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "worker", graph_code(scripted, WORKER))
    scripted.on(
        "both",
        calls([("double", {"number": 2}, "ended")], text="First."),
        calls([("wait", {}, "cut")], text="Then."),
    )
    scripted.on("short", say("Short."))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "both", **WORKS})
        async with begun as response:
            frames = frames_of(response)
            seen = [await anext(frames)]
            while seen[-1].data.get("tool") != "wait":
                seen.append(await anext(frames))
            run = seen[0].data
            assert (
                await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            ).status_code == 202
            seen += [frame async for frame in frames]
        assert seen[-1].data["status"] == "cancelled"
        messages = await history(served, run["session_id"])
        assert results(messages) == {"ended": "completed", "cut": "cancelled"}
        assert [text for _, text in texts(messages)] == ["both", "First.", "Then."]
        assert (await served.chat("short", session_id=run["session_id"])).text == "Short."
        roles = [message["role"] for message in scripted.requests[-1].messages]
        assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]


EDITOR = """
async def answer(state):
    said = await model().ainvoke(state["messages"])
    return {"messages": [said.model_copy(update={"content": said.text.upper()})]}

def sign(state):
    return {"messages": [("ai", "Signed.")]}

def setup(registry):
    build = lambda: line(("answer", answer), ("sign", sign))
    registry.register_subgraph("editor", "Shouts.", build)
"""


@pytest.mark.req("EXEC-04", "EXEC-37")
async def test_what_is_shown_of_a_foreign_graph_is_what_is_kept(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "editor", graph_code(scripted, EDITOR))
    scripted.on("say it", say("quietly"))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("say it", agent="editor")
        shown: dict[str, str] = {}
        for frame in reply.frames:
            message_id = frame.data.get("message_id")
            if frame.type == "token":
                shown[message_id] = shown.get(message_id, "") + frame.data["content"]
            elif frame.type == "message_reset":
                shown[message_id] = ""
        messages = await history(served, reply.session_id)
        assert texts(messages)[1:] == [("assistant", "QUIETLY"), ("assistant", "Signed.")]
        assert {
            one["id"]: text for one, (_, text) in zip(messages, texts(messages), strict=True)
        } == {
            messages[0]["id"]: "say it",
            **shown,
        }


@pytest.mark.req("EXT-04", "EXT-05")
def test_what_is_no_graph_stops_the_start_with_all_faults() -> None:
    def broken() -> object:
        raise RuntimeError("no")

    async def late() -> object:
        return None

    registry = Registry()
    registry.register_agent("assistant")
    registry.register_subgraph("a b", "", dict)
    registry.register_subgraph("assistant", "", dict)
    registry.register_subgraph("plain", "", dict)
    registry.register_subgraph("broken", "", broken)
    registry.register_subgraph("late", "", late)
    with pytest.raises(ConfigError) as raised:
        assemble(registry)
    whats = [fault.what for fault in raised.value.faults]
    assert len(whats) == 5
    assert all(fault.cure for fault in raised.value.faults)
    assert any("dict" in what for what in whats)
