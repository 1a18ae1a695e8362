"""kill -9 at bad moments, then a new start: nothing is lost, nothing hangs (P1, Done-means 3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.client import new_key, parts_of, text_of, types_of
from tests.acceptance.conftest import Connect, provider
from tests.support.extension_folders import add
from tests.support.foreign_graphs import graph_code
from tests.support.postmaster import kill_postmaster
from tests.support.process import end, server, start_server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, hold, say
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(240), pytest.mark.req("OPS-01", "OPS-02", "EXEC-30")]

WRITE = call("write_file", {"path": "/workspace/plan.md", "content": "the plan"})


@pytest.mark.parametrize("database_too", [False, True], ids=["server", "server-and-database"])
def test_a_run_that_was_cut_down_goes_on_after_the_next_start(
    data_dir: Path, scripted: ScriptedServer, database_too: bool, connect: Connect
) -> None:
    gate = Gate()
    scripted.on("first", say("the first answer"))
    scripted.on_each(
        "second",
        hold(say("the second answer, cut"), gate, after=4),
        say("the second answer, whole"),
    )
    started = start_server(data_dir, **provider(scripted)).wait_ready()
    try:
        key = new_key(started)
        client = connect(started, key)
        session_id = client.chat("first")[0]["session_id"]
        fields = {"message": "second", "session_id": session_id}
        stream = client.stream("POST", "/api/chat", data=fields)
        seen = next(frame for frame in stream if frame["type"] == "token")
        started.kill()
    finally:
        end(started)
    if database_too:
        kill_postmaster(data_dir)
    gate.open()
    with server(data_dir, **provider(scripted)) as again:
        client = connect(again, key)
        wait_until(
            lambda: client.run_status(session_id) in ("success", "interrupted"),
            "the run has come to an end",
        )
        assert client.run_status(session_id) == "success"
        messages = client.history(session_id)
        assert [message["role"] for message in messages] == ["user", "assistant"] * 2
        assert [part["text"] for part in parts_of(messages, "text")] == [
            "first",
            "the first answer",
            "second",
            "the second answer, whole",
        ]
        # Who was cut off attaches again and learns that the partial text is void.
        path = f"/api/runs/{seen['run_id']}/events"
        frames = list(client.stream("GET", path, params={"after": "0"}))
        assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
        reset = types_of(frames).index("message_reset")
        assert text_of(frames[reset:]) == "the second answer, whole"
        assert types_of(frames)[-1] == "done"
        assert text_of(client.chat("first", session_id=session_id)) == "the first answer"
    assert scripted.refused == []


@pytest.mark.req("EXEC-21", "EXEC-22", "CHAT-10")
@pytest.mark.parametrize("database_too", [False, True], ids=["server", "server-and-database"])
def test_an_approval_waits_through_a_crash_and_is_answered_after_it(
    data_dir: Path, scripted: ScriptedServer, database_too: bool, connect: Connect
) -> None:
    scripted.on("write", WRITE, say("It is written."))
    started = start_server(data_dir, **provider(scripted)).wait_ready()
    try:
        key = new_key(started)
        card = connect(started, key).chat("write the plan")[-1]
        assert card["type"] == "interrupt"
        started.kill()
    finally:
        end(started)
    if database_too:
        kill_postmaster(data_dir)
    session_id = card["session_id"]
    with server(data_dir, **provider(scripted)) as again:
        client = connect(again, key)
        assert client.run_status(session_id) == "waiting_input"
        pending = client.get("/api/chat/interrupt", session_id=session_id)
        assert pending["interrupt_token"] == card["interrupt_token"]
        assert pending["tool_approval"]["calls"] == card["tool_approval"]["calls"]
        decision = {
            "tool_call_id": pending["tool_approval"]["calls"][0]["tool_call_id"],
            "type": "approve",
        }
        frames = client.resume(card, decisions=[decision])
        assert types_of(frames)[-1] == "done"
        assert text_of(frames) == "It is written."
        assert client.run_status(session_id) == "success"
        calls = parts_of(client.history(session_id), "tool_call")
        assert [one["tool"] for one in calls] == ["write_file"]
        assert calls[0]["result"]["error"] is None
    written = list((data_dir / "workspaces").rglob("plan.md"))
    assert [path.read_text() for path in written] == ["the plan"]
    assert scripted.refused == []


def test_a_run_handed_over_by_a_told_server_is_carried_on_by_the_next(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    gate = Gate()
    scripted.on_each("slow", hold(say("cut"), gate, after=2), say("whole"))
    settings = {**provider(scripted), "GW_DRAIN_SECONDS": "0.2"}
    with server(data_dir, **settings) as started:
        key = new_key(started)
        client = connect(started, key)
        stream = client.stream("POST", "/api/chat", data={"message": "slow"})
        session_id = next(frame for frame in stream if frame["type"] == "token")["session_id"]
        assert started.stop() == 0
    gate.open()
    with server(data_dir, **settings) as again:
        client = connect(again, key)
        wait_until(lambda: client.run_status(session_id) == "success", "the run is carried on")
        texts = [part["text"] for part in parts_of(client.history(session_id), "text")]
        assert texts == ["slow", "whole"]


GRAPH = '''
@tool
def note(text: str) -> str:
    """Note a text."""
    with open(PATH, "a") as file:
        file.write(text)
    return "noted"

def setup(registry):
    registry.register_subgraph("noter", "Notes.", lambda: agent([note]))
'''


@pytest.mark.req("EXEC-04", "EXEC-03")
def test_a_foreign_graph_that_was_cut_down_goes_on_where_it_stood(
    data_dir: Path, scripted: ScriptedServer, tmp_path: Path, connect: Connect
) -> None:
    path, gate = tmp_path / "notes", Gate()
    add(tmp_path / "ext", "noter", graph_code(scripted, GRAPH.replace("PATH", repr(str(path)))))
    options = {**provider(scripted), "GW_EXTENSIONS_PATH": str(tmp_path / "ext")}
    scripted.play(
        call("note", {"text": "once."}, id="the-note"),
        hold(say("All is noted, cut", size=3), gate, after=4),
        say("All is noted, whole"),
    )
    started = start_server(data_dir, **options).wait_ready()
    try:
        key = new_key(started)
        fields = {"message": "note it", "agent": "noter"}
        stream = connect(started, key).stream("POST", "/api/chat", data=fields)
        seen = next(frame for frame in stream if frame["type"] == "token")
        started.kill()
    finally:
        end(started)
    gate.open()
    with server(data_dir, **options) as again:
        client = connect(again, key)
        session_id = seen["session_id"]
        wait_until(
            lambda: client.run_status(session_id) in ("success", "interrupted", "failed"),
            "the run has come to an end",
        )
        assert client.run_status(session_id) == "success"
        messages = client.history(session_id)
        said = [part["text"] for part in parts_of(messages, "text")]
        assert said == ["note it", "All is noted, whole"]
        assert [part["result"]["status"] for part in parts_of(messages, "tool_call")] == [
            "completed"
        ]
    assert path.read_text() == "once."
