"""Every named fault point, killed and thrown at: no run is lost, no session is spoilt (P1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from core import faults
from core.clock import SystemClock
from core.events import StoredEvent
from core.faults import FaultInjected
from core.records import RunRecord
from core.types import ACTIVE, RunStatus
from tests.runtime.child import child
from tests.runtime.conftest import Bench, Ground
from tests.support.events import all_of
from tests.support.postgres import execute
from tests.support.scripted_turns import call, say

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
MESSAGE = "work " * 1500
SETTINGS: dict[str, Any] = {"titles": "on", "context_limit": 6000}
"""Small enough for the second message to be preceded by a summary."""

SUMMARY = "summary.before"
POINTS = sorted(faults.POINTS - {SUMMARY})
PLANS = [*POINTS, "tool.before:2", "tool.after.before_save:2", "event.saved.before_notify:4"]


def script(bench: Bench) -> None:
    """Let every run look something up, delete something with approval, and end."""
    bench.scripted.default = say("ok")
    bench.scripted.on("and now?", say("Going on."))
    bench.scripted.on(
        MESSAGE,
        call("lookup", {"key": "k"}, id="c1"),
        call("delete", {"path": "/a"}, id="c2"),
        say("Done."),
    )


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """Leave no fault behind for other tests."""
    yield
    faults.arm("")


def plan(point: str, action: str) -> str:
    """Return the plan for a point that may name its passing."""
    name, _, at = point.partition(":")
    return f"{name}={action}:{at or 1}"


async def the_run(ground: Ground) -> RunRecord:
    """Return the one run there is, as soon as it is stored."""
    async with asyncio.timeout(20):
        while True:
            sessions, _ = await ground.environment.sessions.list(ground.ann)
            for session in sessions:
                for run in await ground.environment.sessions.runs(ground.ann, session.id):
                    return run
            await SystemClock().sleep(0.02)


async def to_its_end(ground: Ground, run: RunRecord) -> list[StoredEvent]:
    """Follow a run, approve what it asks, and return all that it said."""
    while True:
        async with asyncio.timeout(30):
            events = await all_of(ground.runs.follow(ground.ann, run.id))
        if events[-1].type != "interrupt":
            return events
        given = await ground.runs.pending_interrupt(ground.ann, run.session_id)
        token = given["interrupt_token"]
        decisions = [{"tool_call_id": "c2", "type": "approve"}]
        await ground.answer(_Where(run.session_id), token, decisions=decisions)


class _Where:
    """What `Ground.answer` needs of a run."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


async def check_whole(ground: Ground, run: RunRecord, events: list[StoredEvent]) -> None:
    """Check that the run is over, told whole, and that its session takes another message."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    now = await ground.runs.get(ground.ann, run.id)
    assert now.status not in ACTIVE
    assert events[-1].type == ("done" if now.status is RunStatus.SUCCESS else "error")
    history = await ground.history(run.session_id)
    assert history[0]["role"] == "user"
    said = {part["tool_call_id"]: part["result"] for part in _calls(history)}
    assert None not in said.values(), said
    _, more = await ground.chat("and now?", run.session_id)
    assert more[-1].data.get("status") == "success", more[-1].data
    assert ground.scripted.refused == []


def _calls(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for one in history for part in one["parts"] if part["type"] == "tool_call"]


@pytest.mark.req("EXEC-33", "EXEC-39", "P1", "P10", "D03")
@pytest.mark.parametrize("point", PLANS)
async def test_a_kill_at_any_point_loses_nothing(bench: Bench, point: str):
    script(bench)
    watching = await bench.open(works=False)
    worker = await child(bench, plan(point, "kill"), MESSAGE, **SETTINGS)
    run = await the_run(watching)
    if (
        point in ("resume.claimed", "title.before")
        or point.startswith(("tool.after", "tool.begun", "tool.done"))
        or ":" in point
    ):
        reader = asyncio.create_task(to_its_end(watching, run))
        await worker.ended()
        reader.cancel()
    await worker.ended()
    execute(bench.url, "UPDATE owners SET beat_at = %s WHERE kind = 'serve'", (LONG_AGO,))
    ground = await bench.open(**SETTINGS)
    await check_whole(ground, run, await to_its_end(ground, run))


@pytest.mark.req("EXEC-39", "P1", "P10")
@pytest.mark.parametrize("point", PLANS)
async def test_a_fault_at_any_point_ends_the_run_by_itself(bench: Bench, point: str):
    script(bench)
    ground = await bench.open(**SETTINGS)
    faults.arm(plan(point, "throw"))
    try:
        await ground.submit(MESSAGE)
    except FaultInjected:
        assert point == "input.saved"
    run = await the_run(ground)
    events = await to_its_end(ground, run)
    await ground.environment._titles.idle()
    faults.arm("")
    await check_whole(ground, run, events)


@pytest.mark.req("EXEC-13", "EXEC-39", "P1")
@pytest.mark.parametrize("action", ["kill", "throw"])
async def test_a_fault_in_a_summary_loses_no_message(bench: Bench, action: str):
    bench.scripted.default = say("ok " * 200)
    first = await bench.open(**SETTINGS)
    submitted, _ = await first.chat(MESSAGE)
    for number in range(3):
        await first.chat(f"{number} " + MESSAGE, submitted.session_id)
    await first.environment.drain()
    worker = await child(bench, plan(SUMMARY, action), **SETTINGS)
    run = await first.submit("last " + MESSAGE, submitted.session_id)
    if action == "kill":
        await worker.ended()
        execute(bench.url, "UPDATE owners SET beat_at = %s WHERE kind = 'serve'", (LONG_AGO,))
        await bench.open(**SETTINGS)
    record = await first.runs.get(first.ann, run.run_id)
    await check_whole(first, record, await to_its_end(first, record))
    history = await first.history(submitted.session_id)
    assert [one["role"] for one in history].count("user") == 6
