"""Whatever a tool does becomes one outcome; the run and its siblings live on."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import json
import logging
import sys
import threading

import pytest
from pydantic import BaseModel

from core.errors import FileMissing, ProviderUnreachable, ToolDenied, ToolFailed
from core.tooling import ToolContext, source, sourced
from tests.tools.conftest import Context, tool
from tools.carry_out import carry_out
from tools.result import MOST, completed, failed, for_model

SECRET = "postgresql://root:pw@db.internal/x at /srv/app/secret.py"


async def outcome_of(function, context: Context, args=None, *, timeout: float = 5.0):
    return await carry_out(tool(function, name="probe"), args or {}, context, timeout=timeout)


@pytest.mark.req("EXT-09", "D08")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        ProviderUnreachable(SECRET),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(7),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        TimeoutError(SECRET),
        MemoryError(),
        RecursionError(),
        BaseExceptionGroup("many", [SystemExit(1), ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_whatever_is_raised_becomes_a_result_without_inner_details(
    error, kind, context, caplog
):
    async def in_task() -> None:
        raise error

    def in_thread() -> None:
        raise error

    with caplog.at_level(logging.ERROR):
        outcome = await outcome_of(in_task if kind == "async" else in_thread, context)
    assert outcome.status == "failed"
    shown = for_model(outcome, 16_000)
    assert "probe failed unexpectedly" in shown
    for part in ("db.internal", "/srv/app", "Traceback", "postgresql"):
        assert part not in shown
    assert "tool failed unexpectedly" in caplog.text
    assert caplog.records[-1].exc_info is not None


@pytest.mark.req("EXT-09")
async def test_a_tools_own_error_reaches_the_model_word_for_word(context):
    async def fails() -> None:
        raise ToolFailed("There is no flight on Monday.")

    async def denies() -> None:
        raise ToolDenied("Not on Sundays.")

    async def misses() -> None:
        raise FileMissing

    assert (await outcome_of(fails, context)).data == "There is no flight on Monday."
    assert (await outcome_of(misses, context)).data == "There is no such file."
    assert (await outcome_of(denies, context)).status == "denied"


@pytest.mark.req("EXT-09")
async def test_a_tool_that_takes_too_long_is_stopped(context):
    stopped = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    outcome = await outcome_of(hangs, context, timeout=0.05)
    assert outcome.status == "timeout"
    assert stopped.is_set()


@pytest.mark.req("EXT-09", "D06")
async def test_a_tool_that_swallows_its_cancellation_cannot_hold_the_run(context, monkeypatch):
    monkeypatch.setattr("tools.carry_out._GRACE", 0.05)
    free = asyncio.Event()

    async def stubborn() -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    outcome = await asyncio.wait_for(outcome_of(stubborn, context, timeout=0.05), 3)
    free.set()
    assert outcome.status == "timeout"


@pytest.mark.req("D08")
async def test_a_sync_tool_that_never_returns_holds_neither_loop_nor_siblings(context):
    free = threading.Event()

    def blocks() -> None:
        free.wait(20)

    def quick() -> int:
        return 1

    stuck = [asyncio.create_task(outcome_of(blocks, context, timeout=0.3)) for _ in range(30)]
    sibling = await asyncio.wait_for(outcome_of(quick, context), 3)
    outcomes = await asyncio.gather(*stuck)
    free.set()
    assert sibling.data == 1
    assert {outcome.status for outcome in outcomes} == {"timeout"}


@pytest.mark.req("D06")
async def test_the_runs_own_cancellation_is_passed_on_and_stops_the_tool(context):
    started, stopped = asyncio.Event(), asyncio.Event()

    async def works() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    task = asyncio.create_task(outcome_of(works, context))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stopped.is_set()


async def test_arguments_that_do_not_fit_never_reach_the_function(context):
    called = []

    async def takes(number: int) -> None:
        called.append(number)

    outcome = await outcome_of(takes, context, {"number": "many"})
    assert outcome.status == "failed"
    assert "number" in outcome.error
    assert called == []


async def test_a_tool_reports_progress(context):
    async def works(ctx: ToolContext) -> str:
        ctx.progress("half", 0.5)
        return "done"

    assert (await outcome_of(works, context)).data == "done"
    assert context.told == [("half", 0.5)]


@dataclasses.dataclass
class Row:
    """A row."""

    name: str


class Model(BaseModel):
    """A model."""

    at: datetime.date


class Opaque:
    """An object without a form of its own."""


class Hostile:
    """An object whose methods raise."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


@pytest.mark.req("EXT-09", "D08")
@pytest.mark.parametrize(
    ("value", "data"),
    [
        (None, None),
        (b"text", "text"),
        (b"\xff\xfe\x00", "base64://4A"),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, "a"), [1, "a"]),
        ({"a": {1: b"x"}}, {"a": {"1": "x"}}),
        (Row("r"), {"name": "r"}),
        (Model(at=datetime.date(2026, 1, 2)), {"at": "2026-01-02"}),
        (decimal.Decimal("1.5"), "1.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ((number for number in range(3)), [0, 1, 2]),
        (Opaque(), "(Opaque)"),
        ("a\ud800b\x00c", "a\ufffdb\ufffdc"),
        (True, True),
    ],
)
def test_every_kind_of_value_has_a_plain_form(value, data):
    outcome = completed(value)
    assert outcome.status == "completed"
    assert outcome.data == data
    assert json.loads(for_model(outcome, 16_000))["data"] == data


@pytest.mark.req("D08")
@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * 200_000_000,
        lambda: b"x" * 200_000_000,
        lambda: ["x" * 1_000_000] * 200,
        lambda: dict.fromkeys(range(200000), "x" * 1000),
        lambda: iter(int, 1),
    ],
    ids=["text", "bytes", "list", "dict", "endless"],
)
def test_a_huge_result_is_cut_and_says_so(make):
    outcome = completed(make())
    assert len(outcome.full) <= MOST * 1.6
    assert "Only the first" in outcome.meta["cut"]


def test_a_deep_and_a_circular_value_end():
    loop: list = []
    loop.append(loop)
    assert completed(loop).status == "completed"
    deep: list = []
    for _ in range(sys.getrecursionlimit() * 2):
        deep = [deep]
    assert completed(deep).status == "completed"


@pytest.mark.req("D08")
async def test_a_result_whose_methods_raise_is_a_failed_call(context):
    async def returns() -> Hostile:
        return Hostile()

    outcome = await outcome_of(returns, context)
    assert outcome.status == "failed"
    assert "db.internal" not in outcome.full


@pytest.mark.req("EXT-09")
def test_a_long_result_is_shortened_for_the_model_only():
    outcome = completed("a" * 20_000 + "z" * 20_000)
    body = json.loads(for_model(outcome, 16_000, "read_file /conversation_history/results/1.txt"))
    assert 15_000 < len(body["data"]) < 16_100
    assert (body["data"][0], body["data"][-1]) == ("a", "z")
    assert body["meta"]["whole"] == "read_file /conversation_history/results/1.txt"
    assert body["meta"]["shortened_from"] == 40_000
    assert len(outcome.full) == 40_000


@pytest.mark.req("EXT-08")
def test_sources_of_a_result_are_kept_beside_it():
    outcome = completed(sourced({"v": 1}, [source("Book", "https://b.example", page=3)]))
    assert outcome.data == {"v": 1}
    assert outcome.sources == (
        {"title": "Book", "url": "https://b.example", "snippet": None, "page": 3},
    )


def test_the_four_ends_have_their_names():
    assert {failed("x").status, failed("x", "denied").status, failed("x", "timeout").status} == {
        "failed",
        "denied",
        "timeout",
    }


@pytest.mark.req("D08")
async def test_a_lazy_result_that_blocks_counts_against_the_tools_time(context):
    free = threading.Event()

    def lazy():
        yield 1
        free.wait(20)

    async def returns() -> object:
        return lazy()

    outcome = await asyncio.wait_for(outcome_of(returns, context, timeout=0.2), 5)
    free.set()
    assert outcome.status == "timeout"


class Mute(ToolFailed):
    """Does not call our constructor."""

    def __init__(self) -> None:
        pass


@pytest.mark.req("EXT-09")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ToolFailed(7), "7"),
        (ToolDenied(ValueError("password=abcdefgh")), "password=***"),
        (Mute(), "Mute"),
        (ToolFailed(f"cannot reach {SECRET}"), "postgresql://root:***@db.internal/x"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_tools_own_error_may_have_any_message_and_shows_no_secret(error, said, context):
    async def fails() -> None:
        raise error

    outcome = await outcome_of(fails, context)
    assert said in outcome.data
    assert "root:pw" not in outcome.data


@pytest.mark.req("EXT-09")
async def test_a_returned_exception_is_a_failure_and_one_in_a_list_shows_its_kind(context):
    async def returns() -> object:
        return ValueError(SECRET)

    async def gathers() -> object:
        return [1, ValueError(SECRET), KeyError]

    outcome = await outcome_of(returns, context)
    assert (outcome.status, "(ValueError)" in outcome.data) == ("failed", True)
    assert (await outcome_of(gathers, context)).data == [1, "(ValueError)", "KeyError"]
