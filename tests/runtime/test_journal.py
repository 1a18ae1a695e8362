"""The one writer: windows, numbering, and what happens when storing goes wrong."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from core import events, faults
from core.clock import SystemClock
from core.errors import RunLost, Unavailable
from core.ids import new_id
from core.records import RunRecord
from core.types import RunKind, RunStatus
from runtime.hub import Hub
from runtime.journal import Journal
from runtime.rows import Ending, Rows
from runtime.sink import PENDING_LIMIT, RunSink
from storage.database import Database
from tests.runtime.conftest import principal

CLOCK = SystemClock()
PROGRESS = events.Progress(message="on it")


@pytest.fixture
async def journal(database: Database) -> AsyncIterator[Journal]:
    started = Journal(database, Hub(), CLOCK)
    started.start()
    yield started
    await started.stop()


async def claimed(database: Database) -> RunRecord:
    """Return a run that somebody carries out."""
    ann = await principal(database, "ann")
    async with database.work() as work:
        project_id = await work.projects.ensure(ann, None)
        session = await work.sessions.create(
            id=new_id(),
            principal=ann,
            project_id=project_id,
            agent="assistant",
            title="t",
            mode="full",
            model=None,
            thinking=None,
            at=CLOCK.now(),
        )
        return await work.runs.create(
            id=new_id(),
            principal=ann,
            session_id=session.id,
            kind=RunKind.CHAT,
            agent="assistant",
            model="m",
            mode="full",
            trace_id="t",
            input={},
            on_disconnect="continue",
            at=CLOCK.now(),
            status=RunStatus.RUNNING,
            owner_id="me",
            attempt=1,
        )


async def stored(database: Database, run: RunRecord) -> list[dict[str, object]]:
    async with database.work() as work:
        return [event.data for event in (await work.events.after(run.id, 0, 1000))[0]]


@pytest.mark.req("EXEC-37")
async def test_pieces_of_a_message_become_few_events_and_keep_their_order(
    database: Database, journal: Journal
):
    run = await claimed(database)
    writer = journal.open(run)
    sink = RunSink(writer.buffer)
    for number in range(200):
        sink.token("m1", f"{number} ")
    sink.emit(PROGRESS)
    sink.thinking("m2", "hm")
    sink.token("m2", "so")
    await writer.stage(Rows())
    data = await stored(database, run)
    assert len(data) <= 6
    text = "".join(str(one["content"]) for one in data if one.get("message_id") == "m1")
    assert text == "".join(f"{number} " for number in range(200))
    kinds = [one["type"] for one in data if one.get("message_id") != "m1"]
    assert kinds == ["progress", "thinking_token", "token"]
    assert set(writer.buffer.partials) == {"m1", "m2"}
    writer.buffer.whole("m1")
    assert set(writer.buffer.partials) == {"m2"}


@pytest.mark.req("EXEC-37")
async def test_a_reset_is_told_only_where_text_was_shown(database: Database, journal: Journal):
    run = await claimed(database)
    writer = journal.open(run)
    sink = RunSink(writer.buffer)
    sink.reset("m1", "nothing was shown")
    sink.token("m1", "wrong")
    sink.reset("m1", "again")
    sink.token("m1", "right")
    sink.close()
    sink.token("m1", " and too late")
    await writer.stage(Rows())
    assert [one["type"] for one in await stored(database, run)] == [
        "token",
        "message_reset",
        "token",
    ]
    assert "".join(writer.buffer.partials["m1"].text) == "right"


@pytest.mark.req("EXEC-34", "EXEC-37")
async def test_a_run_held_by_somebody_else_is_dropped_and_the_others_stand(
    database: Database, journal: Journal
):
    mine, lost = await claimed(database), await claimed(database)
    stale = dataclasses.replace(lost, attempt=0)
    good, bad = journal.open(mine), journal.open(stale)
    ending = Rows(ending=Ending(RunStatus.SUCCESS))
    good.emit(PROGRESS)
    bad.emit(PROGRESS)
    first, second = good.stage(Rows()), bad.stage(ending)
    await first
    with pytest.raises(RunLost):
        await second
    assert isinstance(bad.broken.result(), RunLost)
    assert len(await stored(database, mine)) == 1
    assert await stored(database, lost) == []
    async with database.work() as work:
        assert (await work.runs.by_id(lost.id)).status is RunStatus.RUNNING


@pytest.mark.req("EXEC-37")
async def test_a_row_that_cannot_be_stored_stops_its_own_run_only(
    database: Database, journal: Journal
):
    mine, broken = await claimed(database), await claimed(database)
    good, bad = journal.open(mine), journal.open(broken)
    good.emit(PROGRESS)
    bad.emit(PROGRESS)
    fields = {"no_such_column": 1}
    first = good.stage(Rows())
    second = bad.stage(Rows(ending=Ending(RunStatus.SUCCESS, fields)))
    await first
    with pytest.raises(Exception, match="no_such_column"):
        await second
    assert bad.broken.done()
    assert len(await stored(database, mine)) == 1
    assert await stored(database, broken) == []


@pytest.mark.req("EXEC-39", "D02")
@pytest.mark.parametrize("committed", [True, False])
async def test_a_lost_reply_to_a_commit_neither_doubles_nor_loses_events(
    database: Database, journal: Journal, monkeypatch: pytest.MonkeyPatch, committed: bool
):
    run = await claimed(database)
    writer = journal.open(run)
    whole = Journal._store
    tries = 0

    async def unsure(self: Journal, batch: object, *, doubtful: bool) -> None:
        nonlocal tries
        tries += 1
        if tries > 1 or committed:
            await whole(self, batch, doubtful=doubtful)  # type: ignore[arg-type]
        if tries == 1:
            raise Unavailable("the reply was lost")

    monkeypatch.setattr(Journal, "_store", unsure)
    writer.emit(PROGRESS)
    await writer.stage(Rows())
    writer.emit(PROGRESS)
    await writer.stage(Rows())
    assert tries == 3
    assert len(await stored(database, run)) == 2
    assert writer.last_seq == 2


@pytest.mark.req("EXEC-39")
async def test_what_waits_for_a_database_is_bounded(database: Database, journal: Journal):
    writer = journal.open(await claimed(database))
    piece = "x" * 1_000_000
    for number in range(PENDING_LIMIT // len(piece) + 1):
        writer.buffer.text(f"m{number}", piece, thinking=False)
    assert isinstance(writer.broken.result(), Unavailable)


@pytest.mark.req("EXEC-37")
async def test_events_from_a_tools_own_thread_are_taken(database: Database, journal: Journal):
    run = await claimed(database)
    writer = journal.open(run)
    sink = RunSink(writer.buffer)
    await asyncio.to_thread(sink.emit, PROGRESS)
    await writer.stage(Rows())
    assert [one["type"] for one in await stored(database, run)] == ["progress"]


@pytest.mark.req("EXEC-37")
async def test_events_whose_announcement_is_lost_are_stored_all_the_same(
    database: Database, journal: Journal
):
    run = await claimed(database)
    writer = journal.open(run)
    faults.arm("event.saved.before_notify=throw")
    try:
        writer.emit(PROGRESS)
        with pytest.raises(faults.FaultInjected):
            await writer.stage(Rows())
    finally:
        faults.arm("")
    assert len(await stored(database, run)) == 1
