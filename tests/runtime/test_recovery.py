"""Runs whose process died: they go on where that is safe, and end honestly where it is not."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from core.types import RunStatus
from runtime.commands import Submitted
from storage.owners import connection_name
from tests.runtime.child import Child, child
from tests.runtime.conftest import Bench, Ground
from tests.support.events import text_of
from tests.support.postgres import execute
from tests.support.scripted_turns import Gate, call, drip, hold, say

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


async def crash(process: Child, bench: Bench) -> None:
    """Kill a process and let the time pass after which it counts as dead."""
    await process.kill()
    execute(bench.url, "UPDATE owners SET beat_at = %s WHERE kind = 'serve'", (LONG_AGO,))


async def until(ground: Ground, submitted: Submitted, kind: str) -> None:
    """Wait until the run has said something of this kind."""
    async with asyncio.timeout(20):
        async for event in ground.runs.follow(ground.ann, submitted.run_id):
            if event.type == kind:
                return
    raise AssertionError(f"the run ended without {kind}")


def stored(bench: Bench) -> dict[str, list[Any]]:
    """Return what there is of all runs: rows by table, and how far their events go."""
    tables = ("run_events", "messages", "tool_results", "checkpoints", "checkpoint_writes")
    counts = {name: execute(bench.url, f"SELECT count(*) FROM {name}") for name in tables}
    return counts | {"runs": execute(bench.url, "SELECT last_seq, status FROM runs")}


@pytest.mark.req("EXEC-33", "P1")
async def test_a_run_that_broke_off_in_a_model_turn_goes_on_and_repeats_the_turn(bench: Bench):
    watching, worker = await bench.open(works=False), await child(bench)
    gate = Gate()
    bench.scripted.play(
        call("lookup", {"key": "k"}), hold(say("wrong half", size=5), gate, after=2), say("right")
    )
    submitted = await watching.submit("work")
    await until(watching, submitted, "token")
    await crash(worker, bench)
    gate.open()
    ground = await bench.open()
    events = await watching.read(submitted)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].data["status"] == "success"
    assert text_of(events) == "right"
    kinds = [event.type for event in events]
    assert kinds.count("message_reset") == 1
    assert kinds.count("agent_start") == 1
    assert kinds.count("tool_result") == 1
    assert ground.done == []
    history = await ground.history(submitted.session_id)
    assert history[-1]["parts"] == [{"type": "text", "text": "right"}]
    assert (await ground.runs.get(ground.ann, submitted.run_id)).takeovers == 1
    assert bench.scripted.refused == []


@pytest.mark.req("EXEC-33")
async def test_a_run_that_breaks_off_again_and_again_ends_with_its_text_kept(bench: Bench):
    watching = await bench.open(works=False)
    gate = Gate()
    bench.scripted.default = hold(say("half a sentence", size=4), gate, after=3)
    submitted = await watching.submit("work")
    worker = await child(bench)
    await until(watching, submitted, "token")
    await crash(worker, bench)
    ground = await bench.open(max_attempts=1)
    events = await ground.read(submitted)
    gate.open()
    assert events[-1].data["code"] == "run_lost"
    shown = text_of(events)
    message = (await ground.history(submitted.session_id))[1]
    assert message["status"] == "incomplete"
    assert message["parts"][0] == {"type": "text", "text": shown}
    assert shown


@pytest.mark.req("EXEC-22", "EXEC-33")
@pytest.mark.parametrize("point", ["run.claimed", "llm.reply.before_save", "interrupt.saved"])
async def test_a_crash_at_a_fault_point_neither_loses_nor_doubles_anything(
    bench: Bench, point: str
):
    watching, worker = await bench.open(works=False), await child(bench, f"{point}=kill")
    bench.scripted.on("work", call("delete", {"path": "/a"}, id="c1"), say("Done."))
    submitted = await watching.submit("work")
    await worker.ended()
    await crash(worker, bench)
    ground = await bench.open()
    events = await ground.read(submitted)
    assert events[-1].type == "interrupt"
    resumed = await ground.answer(
        submitted,
        events[-1].data["interrupt_token"],
        decisions=[{"type": "approve", "tool_call_id": "c1"}],
    )
    events = await ground.read(resumed)
    assert events[-1].data["status"] == "success"
    assert ground.done == ["delete /a"]
    history = await ground.history(submitted.session_id)
    assert [one["role"] for one in history] == ["user", "assistant", "assistant"]
    everything = await ground.read(submitted)
    assert [event.seq for event in everything] == list(range(1, len(everything) + 1))


@pytest.mark.req("EXEC-33")
async def test_an_answer_survives_the_crash_of_the_worker_that_took_it(bench: Bench):
    watching = await bench.open(works=False)
    worker = await child(bench, "resume.claimed=kill")
    bench.scripted.on("work", call("delete", {"path": "/a"}, id="c1"), say("Done."))
    submitted = await watching.submit("work")
    events = await watching.read(submitted)
    resumed = await watching.answer(
        submitted,
        events[-1].data["interrupt_token"],
        decisions=[{"type": "approve", "tool_call_id": "c1"}],
    )
    await worker.ended()
    await crash(worker, bench)
    ground = await bench.open()
    assert (await ground.read(resumed))[-1].data["status"] == "success"
    assert ground.done == ["delete /a"]


@pytest.mark.req("EXEC-33")
async def test_runs_of_a_living_process_are_left_alone(bench: Bench):
    first = await bench.open()
    gate = Gate()
    bench.scripted.play(hold(say("mine"), gate))
    submitted = await first.submit("work")
    await asyncio.to_thread(bench.scripted.wait_for, 1)
    second = await bench.open()
    await second.environment.worker.sweep()
    run = await first.runs.get(first.ann, submitted.run_id)
    assert (run.status, run.owner_id) == (RunStatus.RUNNING, first.environment.claims.owner_id)
    gate.open()
    assert text_of(await first.read(submitted)) == "mine"


@pytest.mark.req("EXEC-36", "EXEC-22")
async def test_a_process_that_ends_hands_its_runs_over(bench: Bench):
    first = await bench.open()
    gate = Gate()
    bench.scripted.play(hold(say("half"), gate, after=2), say("whole"))
    submitted = await first.submit("work")
    await until(first, submitted, "token")
    await first.environment.drain()
    gate.open()
    assert await first.status(submitted.run_id) is RunStatus.QUEUED
    second = await bench.open()
    events = await second.read(submitted)
    assert events[-1].data["status"] == "success"
    assert text_of(events) == "whole"


@pytest.mark.req("EXEC-32")
async def test_a_queued_run_whose_ticket_was_lost_is_found(bench: Bench):
    waiting = await bench.open(works=False)
    submitted = await waiting.submit("hi")
    execute(bench.url, "DELETE FROM procrastinate_jobs")
    ground = await bench.open()
    assert (await ground.read(submitted))[-1].type == "done"


@pytest.mark.req("EXEC-34")
async def test_a_process_that_lost_a_run_writes_nothing_more(bench: Bench):
    first = await bench.open()
    gate = Gate()
    bench.scripted.play(hold(say("stale text"), gate), say("fresh"))
    submitted = await first.submit("work")
    await asyncio.to_thread(bench.scripted.wait_for, 1)
    execute(bench.url, "UPDATE owners SET beat_at = %s", (LONG_AGO,))
    second = await bench.open()
    events = await second.read(submitted)
    assert text_of(events) == "fresh"
    gate.open()
    # Its worker may have taken the run up again itself; either way nothing is left to say.
    await asyncio.wait_for(asyncio.gather(*first.environment.worker._shifts), 5)
    assert text_of(await second.read(submitted)) == "fresh"


@pytest.mark.req("EXEC-34", "P4")
async def test_a_drive_whose_run_another_process_has_stops_at_once_and_writes_nothing(
    bench: Bench,
):
    ground = await bench.open()
    gate = Gate()
    bench.scripted.play(hold(say("stale text", size=2), gate, after=2))
    submitted = await ground.submit("work")
    await until(ground, submitted, "token")
    taken = "UPDATE runs SET owner_id = 'another', attempt = attempt + 1 WHERE id = %s"
    execute(bench.url, taken, (submitted.run_id,))
    before = stored(bench)
    await ground.environment.strays.look()
    # The model still holds its tongue: nothing but the look can have ended the drive.
    await asyncio.wait_for(asyncio.gather(*ground.environment.worker._shifts), 5)
    assert ground.environment.engine.active == {}
    assert stored(bench) == before
    run = await ground.runs.get(ground.ann, submitted.run_id)
    assert (run.status, run.owner_id) == (RunStatus.RUNNING, "another")
    gate.open()


@pytest.mark.req("EXEC-39", "D02")
async def test_a_database_restart_delays_a_run_and_loses_nothing(bench: Bench):
    ground = await bench.open()
    gate = Gate()
    bench.scripted.play(
        call("lookup", {"key": "k"}), hold(say("one two three", size=4), gate, after=2)
    )
    bench.scripted.default = say("one two three")
    submitted = await ground.submit("work")
    await until(ground, submitted, "token")
    execute(
        bench.url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    gate.open()
    events = await ground.read(submitted)
    assert events[-1].data["status"] == "success"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert text_of(events) == "one two three"
    assert ground.done == ["lookup k"]
    _, more = await ground.chat("and again", submitted.session_id)
    assert more[-1].data["status"] == "success"


@pytest.mark.req("EXEC-33", "EXEC-34", "P1", "P4")
async def test_a_dead_owners_open_transaction_does_not_hold_up_the_takeover(bench: Bench):
    watching, worker = await bench.open(works=False), await child(bench)
    gate = Gate()
    bench.scripted.play(hold(say("wrong half", size=5), gate, after=2), say("right"))
    submitted = await watching.submit("work")
    await until(watching, submitted, "token")
    [(owner,)] = execute(bench.url, "SELECT id FROM owners WHERE kind = 'serve'")
    # As if it had been stopped between a statement and the commit.
    with psycopg.connect(bench.url, application_name=connection_name(owner)) as stopped:
        stopped.execute("SELECT FROM runs WHERE id = %s FOR UPDATE", (submitted.run_id,))
        await crash(worker, bench)
        gate.open()
        await bench.open()
        events = await watching.read(submitted)
        assert events[-1].data["status"] == "success"
        assert text_of(events) == "right"
        with pytest.raises(psycopg.OperationalError):
            stopped.execute("SELECT 1")


@pytest.mark.req("EXEC-36", "P2")
async def test_a_run_is_handed_over_between_two_steps_and_nothing_is_paid_twice(bench: Bench):
    first = await bench.open(handover_seconds=15)
    bench.scripted.on(
        "work",
        drip(call("stamp", {"text": "one"}, id="c1", text="I stamp it now."), 1, 0.002),
        say("Stamped."),
    )
    submitted = await first.submit("work")
    await until(first, submitted, "token")
    await first.environment.drain()
    assert await first.status(submitted.run_id) is RunStatus.QUEUED
    second = await bench.open()
    events = await second.read(submitted)
    assert events[-1].data["status"] == "success"
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds = [event.type for event in events]
    assert (kinds.count("message_reset"), kinds.count("interrupt")) == (0, 0)
    assert (kinds.count("tool_call"), kinds.count("tool_result")) == (1, 1)
    assert len(bench.scripted.requests) == 2
