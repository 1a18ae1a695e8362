"""The door: one run per session, one run per request, nothing left of what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    DuplicateRequest,
    Invalid,
    NotFound,
    PathRefused,
    QueueFull,
    RequestError,
    SessionBusy,
    TooLarge,
)
from core.ids import new_id
from core.types import RunStatus
from runtime.commands import ChatCommand, Submitted, Upload
from tests.runtime.conftest import Bench, Ground
from tests.support.postgres import execute
from tests.support.scripted_turns import Gate, hold, say


def rows(bench: Bench) -> dict[str, int]:
    """Count what admission writes."""
    tables = ("sessions", "projects", "runs", "messages", "run_events", "request_keys")
    counts = {name: execute(bench.url, f"SELECT count(*) FROM {name}")[0][0] for name in tables}
    jobs = execute(bench.url, "SELECT count(*) FROM procrastinate_jobs")
    return counts | {"jobs": jobs[0][0]}


def stored_files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


@pytest.mark.req("EXEC-30", "EXEC-31", "D01", "P5")
async def test_of_messages_sent_at_once_to_one_session_each_is_run_once_or_refused(bench: Bench):
    grounds = [await bench.open(), await bench.open()]
    first, _ = await grounds[0].chat("begin")
    session = first.session_id

    async def send(number: int) -> str | None:
        ground = grounds[number % 2]
        try:
            submitted = await ground.submit(f"u{number}", session)
        except SessionBusy:
            return None
        await ground.read(submitted)
        return f"u{number}"

    accepted: list[str] = []
    for _ in range(3):
        outcomes = await asyncio.gather(
            *(send(number + len(accepted) * 100) for number in range(12))
        )
        sent = [one for one in outcomes if one is not None]
        assert sent
        accepted += sent
    history, _ = await grounds[1].environment.sessions.history(grounds[1].ann, session)
    said = [one["parts"][0]["text"] for one in history if one["role"] == "user"]
    assert sorted(said) == sorted(["begin", *accepted])
    assert [one["role"] for one in history] == ["user", "assistant"] * len(said)
    answers = [one["parts"][0]["text"] for one in history if one["role"] == "assistant"]
    assert answers == [f"echo: {text}" for text in said]
    last = [m for m in bench.scripted.requests[-1].messages if m["role"] == "user"]
    assert [m["content"] for m in last] == said


@pytest.mark.req("CHAT-04", "EXEC-31")
async def test_a_request_id_runs_once_across_processes_and_deletion(bench: Bench):
    one, two = await bench.open(), await bench.open()

    async def send(ground: Ground) -> Submitted | DuplicateRequest:
        try:
            return await ground.submit("hi", request_id="r-1")
        except DuplicateRequest as again:
            return again

    outcomes = await asyncio.gather(*(send((one, two)[number % 2]) for number in range(6)))
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, Submitted)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, DuplicateRequest)]
    assert len(lost) == 5
    assert all(
        again.details == {"session_id": won.session_id, "run_id": won.run_id} for again in lost
    )
    await one.read(won)
    await one.environment.sessions.delete(one.ann, won.session_id)
    with pytest.raises(DuplicateRequest):
        await two.submit("hi", request_id="r-1")
    bob = await one.user("bob")
    assert await one.runs.submit(bob, ChatCommand("hi", request_id="r-1"))


@pytest.mark.req("EXEC-31")
async def test_what_is_refused_leaves_nothing_behind(bench: Bench):
    ground = await bench.open(works=False)
    foreign = await ground.runs.submit(await ground.user("bob"), _command("mine"))
    before, files = rows(bench), stored_files(bench.folder)
    good = Upload("good.txt", b"good")
    refused: list[tuple[type[RequestError], dict[str, Any]]] = [
        (NotFound, {"session": foreign.session_id}),
        (NotFound, {"session": new_id()}),
        (NotFound, {"session": "no id"}),
        (NotFound, {"agent": "nobody"}),
        (NotFound, {"thread_id": new_id()}),
        (Invalid, {"model": "nothing"}),
        (Invalid, {"multitask": "enqueue"}),
        (Invalid, {"multitask": "interrupt"}),
        (Invalid, {"request_id": "x" * 129}),
        (Invalid, {"request_id": ""}),
        (Invalid, {"files": (good,) * 21}),
        (TooLarge, {"files": (good, Upload("big.bin", b"x" * 1_000_001))}),
        (PathRefused, {"files": (good, Upload("..", b"x"))}),
    ]
    for expected, fields in refused:
        with pytest.raises(expected):
            await ground.submit("hi", **{"files": (good,)} | fields)
    for text in (
        "",
        "  \n",
        "#skill:pdf write",
        f"#session:{foreign.session_id} look",
        "#session:x",
    ):
        with pytest.raises((Invalid, NotFound)):
            await ground.submit(text, files=(good,))
    assert rows(bench) == before
    assert stored_files(bench.folder) == files


@pytest.mark.req("EXEC-31", "CHAT-01")
async def test_a_refused_message_takes_back_its_files_and_keeps_older_ones(bench: Bench):
    ground = await bench.open()
    submitted, _ = await ground.chat("keep", files=(Upload("old.txt", b"old"),))
    with pytest.raises(TooLarge):
        await ground.submit(
            "again",
            submitted.session_id,
            files=(Upload("new.txt", b"new"), Upload("big.bin", b"x" * 1_000_001)),
        )
    assert stored_files(bench.folder) == ["old.txt"]
    assert len(await ground.history(submitted.session_id)) == 2


@pytest.mark.req("CHAT-12", "EXEC-31")
async def test_only_a_full_queue_is_refused_with_a_time_to_try_again(bench: Bench):
    ground = await bench.open(works=False, queue_per_user=2, queue_total=3)
    bob = await ground.user("bob")
    await ground.submit("1")
    await ground.submit("2")
    with pytest.raises(QueueFull) as full:
        await ground.submit("3")
    assert full.value.retry_after
    await ground.runs.submit(bob, _command("1"))
    with pytest.raises(QueueFull):
        await ground.runs.submit(bob, _command("2"))


@pytest.mark.req("CHAT-01")
async def test_files_are_stored_named_and_told_to_the_model(ground: Ground):
    submitted, _ = await ground.chat("read it", files=(Upload("报告.txt", b"text"),))
    parts = (await ground.history(submitted.session_id))[0]["parts"]
    assert parts == [
        {"type": "text", "text": "read it"},
        {"type": "file", "path": "/workspace/uploads/报告.txt", "name": "报告.txt", "size": 4},
    ]
    assert "/workspace/uploads/报告.txt" in ground.scripted.requests[0].last_user


@pytest.mark.req("CHAT-03")
async def test_another_session_is_brought_in_as_untrusted_text(ground: Ground):
    other, _ = await ground.chat("the code word is heron")
    submitted, events = await ground.chat(f"#session:{other.session_id} what was it?")
    assert events[0].data["content"] == "what was it?"
    sent = ground.scripted.requests[-1].last_user
    assert sent.startswith("what was it?")
    assert "the code word is heron" in sent
    assert "must not be followed" in sent
    parts = (await ground.history(submitted.session_id))[0]["parts"]
    assert parts == [{"type": "text", "text": "what was it?"}]


@pytest.mark.req("CHAT-23")
async def test_a_new_session_is_named_after_its_first_text(ground: Ground):
    submitted, _ = await ground.chat("  one\n\n two  " + "three " * 30)
    session = await ground.environment.sessions.get(ground.ann, submitted.session_id)
    assert session.title.startswith("one two three")
    assert len(session.title) <= 60
    assert session.title_source == "cut"


@pytest.mark.req("EXEC-32", "CHAT-12")
async def test_users_take_turns_and_none_has_more_seats_than_allowed(bench: Bench):
    waiting = await bench.open(works=False)
    bob = await waiting.user("bob")
    gate = Gate()
    bench.scripted.default = hold(say("ok"), gate)
    anns = [await waiting.submit(f"a{number}") for number in range(4)]
    bobs = [await waiting.runs.submit(bob, _command(f"b{number}")) for number in range(2)]
    ground = await bench.open(user_concurrency=2, worker_concurrency=3)
    await asyncio.to_thread(bench.scripted.wait_for, 3)
    statuses = [await ground.status(one.run_id) for one in anns]
    assert statuses.count(RunStatus.RUNNING) == 2
    first_of_bob = await ground.runs.get(bob, bobs[0].run_id)
    assert first_of_bob.status is RunStatus.RUNNING
    gate.open()
    for one in anns:
        assert (await ground.read(one))[-1].type == "done"
    async with asyncio.timeout(10):
        for one in bobs:
            events = [event async for event in ground.runs.follow(bob, one.run_id)]
            assert events[-1].type == "done"


def _command(message: str) -> Any:
    return ChatCommand(message)
