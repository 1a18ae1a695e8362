"""Runs that are stopped, fail or reach a limit: what was said and done is kept, always."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from core.errors import NotCancellable, NotFound
from core.types import RunStatus
from runtime.commands import Submitted
from tests.runtime.conftest import Bench, Ground
from tests.support.events import snapshot_of, text_of, types_of
from tests.support.postgres import execute
from tests.support.scripted_turns import (
    DONE,
    Gate,
    call,
    calls,
    cut,
    error,
    frame,
    hold,
    raw_frames,
    say,
)


async def until(ground: Ground, submitted: Submitted, kind: str) -> None:
    """Wait until the run has said something of this kind."""
    async with asyncio.timeout(10):
        async for event in ground.runs.follow(ground.ann, submitted.run_id):
            if event.type == kind:
                return
    raise AssertionError(f"the run ended without {kind}")


async def goes_on(ground: Ground, session_id: str) -> None:
    """The next message is answered, and the strict provider takes the history."""
    ground.scripted.play(say("Still here."))
    _, events = await ground.chat("hello?", session_id)
    assert text_of(events) == "Still here."
    assert events[-1].data["status"] == "success"
    assert ground.scripted.refused == []


# Cancelling -------------------------------------------------------------------------------


@pytest.mark.req("CHAT-08", "D06")
async def test_text_that_was_shown_before_a_cancel_is_kept_and_marked(ground: Ground):
    gate = Gate()
    ground.scripted.play(hold(say("one two three four", size=4), gate, after=3))
    submitted = await ground.submit("count")
    await until(ground, submitted, "token")
    began = time.monotonic()
    await ground.runs.cancel(ground.ann, submitted.run_id)
    events = await ground.read(submitted)
    assert time.monotonic() - began < 2
    gate.open()
    assert events[-1].data["status"] == "cancelled"
    assert snapshot_of(events)[-1]["type"] == "done"
    shown = text_of(events)
    message = (await ground.history(submitted.session_id))[1]
    assert message["status"] == "cancelled"
    assert message["parts"] == [{"type": "text", "text": shown}]
    assert "one two three four".startswith(shown)
    await goes_on(ground, submitted.session_id)
    assert ground.scripted.requests[-1].messages[-2] == {"role": "assistant", "content": shown}


@pytest.mark.req("CHAT-08", "D06")
async def test_a_cancel_during_tools_keeps_what_finished_and_closes_the_rest(ground: Ground):
    asked = [("lookup", {"key": "k"}, "c1"), ("hold", {}, "c2"), ("hold", {}, "c3")]
    ground.scripted.play(calls(asked))
    submitted = await ground.submit("work")
    await until(ground, submitted, "tool_result")
    await asyncio.wait_for(ground.bench.tools.held.wait(), 5)
    began = time.monotonic()
    await asyncio.gather(
        ground.runs.cancel(ground.ann, submitted.run_id),
        ground.runs.cancel(ground.ann, submitted.run_id),
    )
    events = await ground.read(submitted)
    assert time.monotonic() - began < 2.5
    assert events[-1].data["status"] == "cancelled"
    results = {e.data["tool_call_id"]: e.data for e in events if e.type == "tool_result"}
    assert results["c1"]["content"] == "value of k"
    assert results["c2"]["error"]
    assert results["c3"]["error"]
    parts = (await ground.history(submitted.session_id))[1]["parts"]
    statuses = [part["result"]["status"] for part in parts]
    assert statuses == ["completed", "cancelled", "cancelled"]
    await goes_on(ground, submitted.session_id)


@pytest.mark.req("CHAT-08", "D06")
async def test_a_tool_that_hangs_in_a_thread_does_not_hold_up_a_cancel(ground: Ground):
    ground.scripted.play(call("hang", id="c1"))
    submitted = await ground.submit("work")
    assert await asyncio.to_thread(ground.bench.tools.stuck.wait, 10)
    began = time.monotonic()
    await ground.runs.cancel(ground.ann, submitted.run_id)
    events = await ground.read(submitted)
    assert time.monotonic() - began < 2.5
    assert types_of(events)[-2:] == ["tool_result", "done"]
    ground.bench.tools.freed.set()
    await goes_on(ground, submitted.session_id)
    parts = (await ground.history(submitted.session_id))[1]["parts"]
    assert parts[0]["result"]["status"] == "cancelled"


@pytest.mark.req("CHAT-08")
async def test_a_queued_run_is_cancelled_without_a_worker(bench: Bench):
    ground = await bench.open(works=False)
    submitted = await ground.submit("later")
    await ground.runs.cancel(ground.ann, submitted.run_id)
    events = await ground.read(submitted)
    assert types_of(events) == ["user_message", "done"]
    assert await ground.status(submitted.run_id) is RunStatus.CANCELLED
    with pytest.raises(NotCancellable):
        await ground.runs.cancel(ground.ann, submitted.run_id)
    with pytest.raises(NotFound):
        await ground.runs.cancel(await ground.user("bob"), submitted.run_id)
    working = await bench.open()
    await goes_on(working, submitted.session_id)
    said = [m["content"] for m in ground.scripted.requests[-1].messages if m["role"] == "user"]
    assert "later" in said[0]


@pytest.mark.req("CHAT-08", "D06")
async def test_a_run_of_another_process_is_cancelled_there(bench: Bench):
    worker, other = await bench.open(), await bench.open(works=False)
    gate = Gate()
    bench.scripted.play(hold(say("one two three", size=4), gate, after=2))
    submitted = await other.submit("count")
    await until(other, submitted, "token")
    await other.runs.cancel(other.ann, submitted.run_id)
    events = await other.read(submitted)
    gate.open()
    assert events[-1].data["status"] == "cancelled"
    assert worker.environment.engine.active == {}


# Failing ----------------------------------------------------------------------------------


@pytest.mark.req("EXEC-39", "P8")
async def test_a_provider_that_refuses_ends_the_run_with_its_own_code(ground: Ground):
    ground.scripted.play(error(401))
    submitted, events = await ground.chat("hi")
    assert types_of(events)[-2:] == ["agent_error", "error"]
    assert events[-1].data["code"] == "provider_auth"
    run = await ground.runs.get(ground.ann, submitted.run_id)
    assert (run.status, run.error_code) == (RunStatus.FAILED, "provider_auth")
    history = await ground.history(submitted.session_id)
    assert history[1]["parts"][-1]["code"] == "provider_auth"
    await goes_on(ground, submitted.session_id)


@pytest.mark.req("L10", "P8")
@pytest.mark.parametrize("ending", ["clean", "done without finish", "reset"])
async def test_a_cut_answer_is_kept_as_incomplete_and_never_counts_as_success(
    ground: Ground, ending: str
):
    half = [frame({"role": "assistant"}), frame({"content": "Half an ans"})]
    turn = {
        "clean": raw_frames(half),
        "done without finish": raw_frames([*half, DONE]),
        "reset": cut(raw_frames(half), 2, reset=True),
    }[ending]
    ground.scripted.play(turn, turn, turn)
    submitted, events = await ground.chat("hi")
    assert events[-1].data["code"] == "provider_stream_cut"
    assert text_of(events) == "Half an ans"
    message = (await ground.history(submitted.session_id))[1]
    assert message["status"] == "incomplete"
    assert [part["type"] for part in message["parts"]] == ["text", "error"]
    assert message["parts"][0]["text"] == "Half an ans"
    ground.scripted._script.clear()
    await goes_on(ground, submitted.session_id)


@pytest.mark.req("EXEC-09", "D07")
@pytest.mark.parametrize("limit", [3, 4, 25])
async def test_a_step_limit_ends_between_whole_steps_and_the_thread_goes_on(
    bench: Bench, limit: int
):
    ground = await bench.open(max_steps=limit, stall_steps=100)
    numbers = iter(range(1000))
    ground.scripted.default = lambda _: call("send_mail", {"to": f"m{next(numbers)}"})
    submitted, events = await ground.chat("mail them all")
    assert events[-1].data["code"] == "step_limit"
    mails = len(ground.done)
    assert mails <= limit
    results = [event for event in events if event.type == "tool_result"]
    begun = [event for event in events if event.type == "tool_call"]
    assert len(begun) == mails
    asked = {
        part["tool_call_id"]
        for message in await ground.history(submitted.session_id)
        for part in message["parts"]
        if part["type"] == "tool_call"
    }
    assert {event.data["tool_call_id"] for event in results} == asked
    await goes_on(ground, submitted.session_id)
    assert len(ground.done) == mails


@pytest.mark.req("EXEC-03", "D08")
async def test_a_tool_that_raises_spoils_neither_its_siblings_nor_the_run(ground: Ground):
    ground.scripted.play(
        calls([("boom", {}, "c1"), ("send_mail", {"to": "x"}, "c2")]), say("One worked.")
    )
    _, events = await ground.chat("both")
    assert events[-1].data["status"] == "success"
    assert ground.done == ["mail x"]
    results = {e.data["tool_call_id"]: e.data for e in events if e.type == "tool_result"}
    assert results["c1"]["error"]
    assert results["c2"]["content"] == "sent 1"
    for text in (str(results), str(ground.scripted.requests[-1].body)):
        assert "Traceback" not in text
        assert "secret detail" not in text


@pytest.mark.req("EXEC-39", "P1")
async def test_a_run_whose_thread_is_damaged_still_ends(bench: Bench):
    ground = await bench.open()
    gate = Gate()
    ground.scripted.play(
        call("lookup", {"key": "k"}), hold(say("half of it", size=2), gate, after=3)
    )
    submitted = await ground.submit("work")
    await until(ground, submitted, "token")
    for table in ("checkpoint_blobs", "checkpoint_writes"):
        execute(bench.url, f"UPDATE {table} SET blob = decode('c1c1', 'hex')")
    await ground.runs.cancel(ground.ann, submitted.run_id)
    gate.open()
    events = await ground.read(submitted)
    assert events[-1].type == "error"
    assert await ground.status(submitted.run_id) is RunStatus.FAILED
    # The session is damaged for good, and says so; it neither hangs nor stays busy.
    for _ in range(2):
        _, more = await ground.chat("hello?", submitted.session_id)
        assert more[-1].type == "error"
    await goes_on(ground, (await ground.chat("elsewhere"))[0].session_id)


@pytest.mark.req("EXEC-39")
async def test_an_agent_that_is_gone_ends_the_run_with_a_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    ground = await bench.open(works=False)
    submitted = await ground.submit("hi")

    def renamed() -> Any:
        assembly = Bench.assembly(bench)
        spec = assembly.agents["assistant"]
        object.__setattr__(assembly, "agents", {"other": spec})
        object.__setattr__(assembly, "default_agent", "other")
        return assembly

    monkeypatch.setattr(bench, "assembly", renamed)
    await bench.open()
    events = await ground.read(submitted)
    assert events[-1].data["code"] == "not_found"
    assert await ground.status(submitted.run_id) is RunStatus.FAILED
