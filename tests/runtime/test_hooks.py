"""Hooks about tool calls in real runs: what they change is approved, shown, stored and run."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from core.errors import ToolDenied
from core.hooks import (
    ToolCall,
    ToolResult,
)
from core.types import RunStatus
from tests.runtime.conftest import Bench, Ground
from tests.support.events import types_of
from tests.support.hooking import named, sent_args, use
from tests.support.scripted_turns import call, calls, say


async def shown_args(ground: Ground, session_id: str) -> list[dict[str, Any]]:
    parts = [part for item in await ground.history(session_id) for part in item["parts"]]
    return [part["args"] for part in parts if part["type"] == "tool_call"]


def check_paths(event: ToolCall) -> ToolCall | None:
    """Keep every path below /safe."""
    path = str(event.args.get("path", ""))
    if not path or path.startswith("/safe"):
        return None
    if path.startswith("/etc"):
        raise ToolDenied(f"{path} is out of bounds.")
    return dataclasses.replace(event, args={**event.args, "path": f"/safe{path}"})


@pytest.mark.req("EXT-10", "EXEC-20", "EXEC-23")
async def test_changed_arguments_are_what_is_approved_shown_stored_and_run(bench: Bench):
    use(bench, ("tool_call.before", check_paths))
    ground = await bench.open()
    ground.scripted.play(call("delete", {"path": "/x"}, id="c1"), say("Gone."))
    submitted, events = await ground.chat("remove x")
    [asked] = named(events, "interrupt")
    assert asked["tool_approval"]["args"] == {"path": "/safe/x"}
    decision = {"tool_call_id": "c1", "type": "approve"}
    resumed = await ground.answer(submitted, asked["interrupt_token"], decisions=[decision])
    events = await ground.read(resumed)
    assert ground.done == ["delete /safe/x"]
    assert [one["args"] for one in named(events, "tool_call")] == [{"path": "/safe/x"}]
    assert sent_args(ground) == [{"path": "/safe/x"}]
    assert await shown_args(ground, submitted.session_id) == [{"path": "/safe/x"}]
    assert ground.scripted.refused == []


@pytest.mark.req("EXT-10", "EXEC-20")
async def test_a_denied_call_is_not_asked_about_and_its_result_says_why(bench: Bench):
    use(bench, ("tool_call.before", check_paths))
    ground = await bench.open()
    ground.scripted.play(call("delete", {"path": "/etc/passwd"}), say("I may not."))
    _, events = await ground.chat("remove it")
    assert "interrupt" not in types_of(events)
    [result] = named(events, "tool_result")
    assert result["error"] == "/etc/passwd is out of bounds."
    content = json.loads(ground.scripted.requests[-1].messages[-1]["content"])
    assert content["status"] == "denied"
    assert content["data"] == "/etc/passwd is out of bounds."
    assert events[-1].type == "done"
    assert ground.done == []


@pytest.mark.req("EXT-10", "EXEC-20")
@pytest.mark.parametrize(
    ("path", "status", "done"),
    [("/safe/new", "completed", ["delete /safe/new"]), ("/etc/new", "denied", [])],
)
async def test_arguments_that_a_person_entered_pass_the_hook_again(
    bench: Bench, path: str, status: str, done: list[str]
):
    use(bench, ("tool_call.before", check_paths))
    ground = await bench.open()
    ground.scripted.play(call("delete", {"path": "/x"}, id="c1"), say("Well."))
    submitted, events = await ground.chat("remove x")
    [asked] = named(events, "interrupt")
    edit = {"tool_call_id": "c1", "type": "edit", "args": {"path": path}}
    resumed = await ground.answer(submitted, asked["interrupt_token"], decisions=[edit])
    events = await ground.read(resumed)
    content = json.loads(ground.scripted.requests[-1].messages[-1]["content"])
    assert content["status"] == status
    assert ground.done == done
    assert events[-1].type == "done"


@pytest.mark.req("EXT-10")
@pytest.mark.parametrize(("on_error", "end"), [("fail", "error"), ("ignore", "done")])
async def test_a_hook_that_changes_what_a_person_entered_has_failed(
    bench: Bench, on_error: str, end: str
):
    use(bench, ("tool_call.before", check_paths), on_error=on_error)
    ground = await bench.open()
    ground.scripted.play(call("delete", {"path": "/x"}, id="c1"), say("Well."))
    submitted, events = await ground.chat("remove x")
    [asked] = named(events, "interrupt")
    edit = {"tool_call_id": "c1", "type": "edit", "args": {"path": "/elsewhere"}}
    resumed = await ground.answer(submitted, asked["interrupt_token"], decisions=[edit])
    events = await ground.read(resumed)
    assert events[-1].type == end
    assert ground.done == ([] if end == "error" else ["delete /elsewhere"])
    if end == "error":
        assert events[-1].data["code"] == "hook_result_invalid"
        assert "arguments that a person had entered" in events[-1].data["message"]


@pytest.mark.req("EXT-10")
@pytest.mark.parametrize(("on_error", "end"), [("fail", "error"), ("ignore", "done")])
async def test_arguments_that_do_not_fit_the_schema_are_the_hooks_failure(
    bench: Bench, on_error: str, end: str
):
    def breaks(event: ToolCall) -> ToolCall:
        return dataclasses.replace(event, args={"key": 1, "more": True})

    use(bench, ("tool_call.before", breaks), on_error=on_error)
    ground = await bench.open()
    ground.scripted.play(call("lookup", {"key": "a"}), say("Well."))
    submitted, events = await ground.chat("look")
    assert events[-1].type == end
    assert ground.done == ([] if end == "error" else ["lookup a"])
    if end == "error":
        assert events[-1].data["code"] == "hook_result_invalid"
        assert "do not fit the schema of lookup" in events[-1].data["message"]
        assert await ground.status(submitted.run_id) is RunStatus.FAILED
        _, after = await ground.chat("and now?", submitted.session_id)
        assert after[-1].type == "done"
    assert ground.scripted.refused == []


@pytest.mark.req("EXT-10", "EXT-09")
async def test_a_hook_may_rewrite_a_result_and_no_failure_into_a_success(bench: Bench):
    seen: list[tuple[str, str]] = []

    def redact(event: ToolResult) -> ToolResult:
        seen.append((event.tool, event.status))
        return dataclasses.replace(event, data=f"[{event.status}]")

    use(bench, ("tool_call.after", redact))
    ground = await bench.open()
    ground.scripted.play(calls([("lookup", {"key": "a"}), ("boom", {})]), say("Well."))
    submitted, events = await ground.chat("look")
    assert sorted(seen) == [("boom", "failed"), ("lookup", "completed")]
    assert {one["tool"]: one["error"] for one in named(events, "tool_result")} == {
        "lookup": None,
        "boom": "[failed]",
    }
    contents = [json.loads(m["content"]) for m in ground.scripted.requests[-1].messages[-2:]]
    assert [one["data"] for one in contents] == ["[completed]", "[failed]"]
    assert "value of a" not in str(await ground.history(submitted.session_id))


@pytest.mark.req("EXT-10")
async def test_a_failed_hook_about_a_result_ends_the_run_and_hides_no_call_that_happened(
    bench: Bench,
):
    def fails(event: ToolResult) -> None:
        raise RuntimeError("postgresql://app:hunter2secret@db.internal/x")

    use(bench, ("tool_call.after", fails))
    ground = await bench.open()
    ground.scripted.play(call("send_mail", {"to": "bob"}), say("Never."))
    submitted, events = await ground.chat("mail bob")
    assert ground.done == ["mail bob"]
    [result] = named(events, "tool_result")
    assert result["error"] is None
    assert "withheld" in result["content"]
    assert events[-1].data["code"] == "hook_failed"
    assert len(ground.scripted.requests) == 1
    told = json.dumps([dict(one.data) for one in events])
    assert "hunter2secret" not in told
    assert "db.internal" not in told
    await ground.chat("and now?", submitted.session_id)
    [content] = [m["content"] for m in ground.scripted.requests[-1].messages if m["role"] == "tool"]
    assert "sent 1" not in content
