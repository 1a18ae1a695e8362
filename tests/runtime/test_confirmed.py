"""A turn that is stored is never asked for again, wherever the process stops (P2, EXEC-35)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.runtime.child import child
from tests.runtime.conftest import Bench
from tests.support.postgres import execute
from tests.support.scripted_turns import call, say

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.req("EXEC-35", "P2")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("flush", range(2, 8))
async def test_a_confirmed_turn_is_paid_once_whichever_flush_was_the_last(bench: Bench, flush: int):
    watching = await bench.open(works=False)
    worker = await child(bench, f"event.saved.before_notify=kill:{flush}")
    bench.scripted.on("work", call("lookup", {"key": "k"}, id="c1", text="So."), say("Done."))
    submitted = await watching.submit("work")
    # Where flushes have become one, the run ends before that one; nothing is paid again then.
    dead = asyncio.create_task(worker.ended())
    read = asyncio.create_task(watching.read(submitted))
    await asyncio.wait([dead, read], return_when=asyncio.FIRST_COMPLETED)
    await worker.kill()
    read.cancel()
    await asyncio.wait([dead, read])
    asked = len(bench.scripted.requests)
    [(confirmed,)] = execute(bench.url, "SELECT count(*) FROM messages WHERE role = 'assistant'")
    execute(bench.url, "UPDATE owners SET beat_at = %s WHERE kind = 'serve'", (LONG_AGO,))
    ground = await bench.open()
    events = await ground.read(submitted)
    assert events[-1].data["status"] == "success"
    # One that is not shown as whole yet may be in a checkpoint, and is used all the same.
    assert 2 <= len(bench.scripted.requests) <= asked + 2 - confirmed
    history = await ground.history(submitted.session_id)
    assert [part.get("text") for one in history[1:] for part in one["parts"]] == [
        "So.",
        None,
        "Done.",
    ]
