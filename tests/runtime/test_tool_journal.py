"""Calls that may change something: never done twice, and asked about where nobody knows (P3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.types import RunStatus
from runtime.commands import Submitted
from tests.runtime.child import Child, child
from tests.runtime.conftest import STAMPS, Bench, Ground
from tests.support.events import types_of
from tests.support.postgres import execute
from tests.support.scripted_turns import Turn, call, calls, say

pytestmark = [pytest.mark.req("EXEC-35", "P3"), pytest.mark.timeout(120)]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
AFTER_IT_HAPPENED = "tool.done.before_journal=kill"
BEFORE_IT_HAPPENED = "tool.begun=kill"
AFTER_IT_WAS_NOTED = "tool.after.before_save=kill"


def stamps(bench: Bench) -> list[str]:
    """Return what the stamping tools did, in whatever process."""
    name = Path(STAMPS).name
    return [line for path in bench.folder.rglob(name) for line in path.read_text().split()]


async def crash(process: Child, bench: Bench) -> None:
    """Wait for the crash and let the time pass after which the process counts as dead."""
    await process.ended()
    execute(bench.url, "UPDATE owners SET beat_at = %s WHERE kind = 'serve'", (LONG_AGO,))


async def crashed(
    bench: Bench, fault: str, *turns: Turn, settings: dict[str, Any] | None = None
) -> tuple[Ground, Submitted]:
    """Let a run break off, and return a runtime that takes it over."""
    watching = await bench.open(works=False)
    worker = await child(bench, fault)
    bench.scripted.on("work", *turns)
    submitted = await watching.submit("work")
    await crash(worker, bench)
    return await bench.open(**(settings or {})), submitted


async def asked(ground: Ground, submitted: Submitted) -> dict[str, Any]:
    """Return the one call that is asked about, with the token."""
    events = await ground.read(submitted)
    assert events[-1].type == "interrupt", types_of(events)
    (one,) = events[-1].data["tool_approval"]["calls"]
    return one | {"token": events[-1].data["interrupt_token"]}


def results(history: Sequence[dict[str, Any]]) -> list[str]:
    found = [part for one in history for part in one["parts"] if part["type"] == "tool_call"]
    return [part["result"]["status"] for part in found]


async def test_an_end_that_was_noted_is_used_again(bench: Bench):
    ground, submitted = await crashed(
        bench, AFTER_IT_WAS_NOTED, call("stamp", {"text": "one"}, id="c1"), say("Stamped.")
    )
    events = await ground.read(submitted)
    assert events[-1].data["status"] == "success"
    assert stamps(bench) == ["one"]
    assert [event.type for event in events].count("tool_call") == 1
    (result,) = [event.data for event in events if event.type == "tool_result"]
    assert result["content"] == "stamped one"
    assert bench.scripted.refused == []


async def test_a_call_that_is_safe_to_repeat_is_repeated(bench: Bench):
    ground, submitted = await crashed(
        bench, AFTER_IT_HAPPENED, call("set_stamp", {"text": "one"}, id="c1"), say("Set.")
    )
    events = await ground.read(submitted)
    assert events[-1].data["status"] == "success"
    assert stamps(bench) == ["one", "one"]


@pytest.mark.parametrize("fault", [BEFORE_IT_HAPPENED, AFTER_IT_HAPPENED])
@pytest.mark.parametrize(
    ("decision", "status", "content", "more"),
    [
        ({"type": "approve"}, "completed", "stamped one", 1),
        ({"type": "reject"}, "failed", "chose not to carry it out again", 0),
        ({"type": "reject", "message": "seen it"}, "failed", "Reason: seen it", 0),
        ({"type": "respond", "message": "it is there"}, "completed", "it is there", 0),
    ],
    ids=["approve", "reject", "reject with a reason", "respond"],
)
async def test_what_may_have_happened_is_decided_by_a_person(
    bench: Bench, fault: str, decision: dict[str, Any], status: str, content: str, more: int
):
    happened = 1 if fault == AFTER_IT_HAPPENED else 0
    ground, submitted = await crashed(
        bench,
        fault,
        calls([("lookup", {"key": "k"}, "c0"), ("stamp", {"text": "one"}, "c1")]),
        say("Understood."),
    )
    one = await asked(ground, submitted)
    assert one["tool_call_id"] == "c1"
    assert "It may have happened" in one["reason"]
    assert one["allowed_decisions"] == ["approve", "reject", "respond"]
    assert len(stamps(bench)) == happened
    assert await ground.status(submitted.run_id) is RunStatus.WAITING_INPUT
    resumed = await ground.answer(
        submitted, one["token"], decisions=[{"tool_call_id": "c1", **decision}]
    )
    events = await ground.read(resumed)
    assert events[-1].data["status"] == "success"
    assert len(stamps(bench)) == happened + more
    history = await ground.history(submitted.session_id)
    assert results(history) == ["completed", status]
    assert content in history[1]["parts"][1]["result"]["preview"]
    everything = await ground.read(submitted)
    assert [event.seq for event in everything] == list(range(1, len(everything) + 1))
    assert [event.type for event in everything].count("tool_call") == 2
    assert [event.type for event in everything].count("tool_result") == 2
    assert bench.scripted.refused == []


async def test_a_second_crash_is_asked_about_again_and_the_first_answer_stands(bench: Bench):
    ground, submitted = await crashed(
        bench, AFTER_IT_HAPPENED, call("stamp", {"text": "one"}, id="c1"), say("Stamped.")
    )
    one = await asked(ground, submitted)
    await ground.environment.drain()
    worker = await child(bench, AFTER_IT_HAPPENED)
    resumed = await ground.answer(
        submitted, one["token"], decisions=[{"tool_call_id": "c1", "type": "approve"}]
    )
    await crash(worker, bench)
    again = await bench.open()
    second = await asked(again, resumed)
    assert second["token"] != one["token"]
    assert stamps(bench) == ["one", "one"]
    last = await again.answer(
        submitted, second["token"], decisions=[{"tool_call_id": "c1", "type": "reject"}]
    )
    events = await again.read(last)
    assert events[-1].data["status"] == "success"
    assert stamps(bench) == ["one", "one"]


async def test_two_calls_that_may_have_happened_are_asked_about_one_after_the_other(bench: Bench):
    watching = await bench.open(works=False)
    worker = await child(bench, "tool.done.before_journal=kill:2")
    bench.scripted.on(
        "work",
        calls([("hold", {}, "c1"), ("stamp", {"text": "a"}, "c2"), ("stamp", {"text": "b"}, "c3")]),
        say("Done."),
    )
    submitted = await watching.submit("work")
    await crash(worker, bench)
    ground = await bench.open()
    seen: list[str] = []
    rest = submitted
    while True:
        events = await ground.read(rest)
        if events[-1].type != "interrupt":
            break
        (one,) = events[-1].data["tool_approval"]["calls"]
        seen.append(one["tool_call_id"])
        rest = await ground.answer(
            submitted,
            events[-1].data["interrupt_token"],
            decisions=[{"tool_call_id": one["tool_call_id"], "type": "reject"}],
        )
    assert events[-1].data["status"] == "success"
    # Of the two that ended at about the same time, one end may have been noted.
    assert seen in (["c1", "c2", "c3"], ["c1", "c2"], ["c1", "c3"])
    assert len(stamps(bench)) == 2


async def test_nothing_is_noted_of_tools_that_change_nothing(bench: Bench):
    ground = await bench.open()
    bench.scripted.play(
        calls([("lookup", {"key": "k"}, "c1"), ("stamp", {"text": "a"}, "c2")]), say("Done.")
    )
    await ground.chat("work")
    assert execute(bench.url, "SELECT tool, starts FROM tool_journal") == [("stamp", 1)]
    [(form, blob)] = execute(bench.url, "SELECT type, blob FROM tool_journal")
    assert form.startswith("outcome+")
    assert b"stamped a" not in blob
