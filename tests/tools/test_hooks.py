"""Whatever a hook does, it comes to a named end in time; what it gives back is checked."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from core.errors import (
    HookError,
    HookFailed,
    HookResultInvalid,
    HookTimeout,
    ToolDenied,
)
from core.hook_values import VALUE_LIMIT, frozen
from core.hooks import (
    HookCall,
    HookMessage,
    HookRun,
    Hooks,
    HookSpec,
    ModelRequest,
    RunEnd,
    SubRunStart,
    ToolCall,
    ToolResult,
)
from tests.support.logs import captured
from tools.hooks import RunHooks

RUN = HookRun(
    run_id="r",
    session_id="s",
    trace_id="t",
    workspace_id="w",
    user_id="u",
    user="ann",
    agent="assistant",
    mode="full",
)
CALL = ToolCall(
    run=RUN,
    tool="write",
    tool_call_id="c1",
    side_effect="write",
    edited=False,
    args=frozen({"path": "/a", "lines": ["x", {"y": 1}]}),
)
REQUEST = ModelRequest(
    run=RUN,
    model="m",
    shown=True,
    messages=(
        HookMessage(role="system", text="Be brief."),
        HookMessage(role="user", text="hi"),
        HookMessage(
            role="assistant", text="", calls=(HookCall(id="c", tool="write", args=frozen({})),)
        ),
        HookMessage(role="tool", text="done", tool_call_id="c"),
    ),
    tools=("write", "read"),
    max_tokens=None,
)
RESULT = ToolResult(
    run=RUN, tool="write", tool_call_id="c1", args=frozen({}), status="failed", data="no"
)
END = RunEnd(
    run=RUN,
    status="success",
    answer="x",
    error_code="",
    duration_ms=1,
    input_tokens=1,
    output_tokens=1,
)


def hooks(function: Callable[[Any], Any], point: str = "tool_call.before", **more: Any) -> RunHooks:
    said: dict[str, Any] = {
        "name": "tried",
        "point": point,
        "function": function,
        "timeout": 5.0,
        "on_error": "fail",
        "agents": None,
        "observes": False,
        "extension": "acme",
        "fingerprint": "f",
    }
    return RunHooks([HookSpec(**said | more)], RUN)


@pytest.mark.req("EXT-10")
async def test_plain_and_async_hooks_change_what_they_may_and_see_each_others_changes():
    def plain(event: ToolCall) -> ToolCall:
        return dataclasses.replace(event, args={**event.args, "path": "/b\x00"})

    async def later(event: ToolCall) -> ToolCall | None:
        assert event.args["path"] == "/b\ufffd"
        return dataclasses.replace(event, args={**event.args, "n": (1, 2)})

    class Called:
        async def __call__(self, event: ToolCall) -> None:
            seen.append(dict(event.args))

    seen: list[Any] = []
    specs = [hooks(one).at["tool_call.before"][0] for one in (plain, later, Called())]
    changed = await RunHooks(specs, RUN).apply(CALL)
    assert changed.args == {"path": "/b\ufffd", "lines": ["x", {"y": 1}], "n": [1, 2]}
    assert seen == [changed.args]
    assert changed.tool_call_id == "c1"
    assert CALL.args["path"] == "/a"


@pytest.mark.req("EXT-10")
async def test_a_hook_of_another_agent_is_not_called_and_no_hooks_change_nothing():
    calls: list[Any] = []
    other = hooks(calls.append, agents=("other",))
    assert not other.wants("tool_call.before")
    assert await other.apply(CALL) is CALL
    assert await Hooks().apply(CALL) is CALL
    assert calls == []


def mutates(event: ToolCall) -> None:
    event.args["path"] = "/etc"  # pyright: ignore[reportIndexIssue]


def mutates_deep(event: ToolCall) -> None:
    event.args["lines"][1].update(y=2)


def sets_field(event: ToolCall) -> None:
    event.tool = "other"  # pyright: ignore[reportAttributeAccessIssue]


def leaves(event: ToolCall) -> None:
    raise SystemExit(3)


def interrupts(event: ToolCall) -> None:
    raise KeyboardInterrupt


async def cancels(event: ToolCall) -> None:
    raise asyncio.CancelledError


def tells(event: ToolCall) -> None:
    raise RuntimeError("postgresql://app:hunter2secret@db.internal/x at /srv/app token sk-abc")


@pytest.mark.req("EXT-10")
@pytest.mark.parametrize(
    "function", [mutates, mutates_deep, sets_field, leaves, interrupts, cancels, tells]
)
async def test_a_hook_that_raises_fails_by_name_without_its_text(function: Callable[..., Any]):
    with captured() as lines, pytest.raises(HookFailed) as caught:
        await hooks(function).apply(CALL)
    assert "The hook tried of the extension acme at tool_call.before failed" in caught.value.message
    for secret in ("hunter2secret", "db.internal", "/srv/app"):
        assert secret not in json.dumps(caught.value.body())
    assert "hunter2secret" not in lines.getvalue()
    assert CALL.args == {"path": "/a", "lines": ["x", {"y": 1}]}


CHANGES: dict[str, tuple[Any, Any, str]] = {
    "a dict": (CALL, {"args": {}}, "returned dict, not ToolCall or None"),
    "another record": (CALL, RESULT, "returned ToolResult"),
    "a fixed field": (CALL, dataclasses.replace(CALL, tool="x"), "it changed tool; only args may"),
    "an id": (CALL, dataclasses.replace(CALL, tool_call_id="c2"), "it changed tool_call_id"),
    "no object": (CALL, dataclasses.replace(CALL, args=["x"]), "list, not a JSON object"),
    "no json": (CALL, dataclasses.replace(CALL, args={"x": {1, 2}}), "set is no JSON type"),
    "a number as name": (CALL, dataclasses.replace(CALL, args={1: 2}), "is int, not text"),
    "no number": (CALL, dataclasses.replace(CALL, args={"x": float("nan")}), "no JSON number"),
    "too large": (CALL, dataclasses.replace(CALL, args={"x": "y" * VALUE_LIMIT}), "has more than"),
    "a huge number": (CALL, dataclasses.replace(CALL, args={"x": 10**30}), "more than 64 bits"),
    "a tool more": (
        REQUEST,
        dataclasses.replace(REQUEST, tools=("write", "read", "delete")),
        "'delete', which was not there",
    ),
    "no limit": (REQUEST, dataclasses.replace(REQUEST, max_tokens=0), "from 1 on"),
    "a message less": (
        REQUEST,
        dataclasses.replace(REQUEST, messages=REQUEST.messages[:-1]),
        "3 entries in place of 4",
    ),
    "a pair torn": (
        REQUEST,
        dataclasses.replace(
            REQUEST,
            messages=(
                *REQUEST.messages[:-1],
                HookMessage(role="tool", text="done", tool_call_id="d"),
            ),
        ),
        "tool_call_id of an entry differs",
    ),
    "no text": (
        REQUEST,
        dataclasses.replace(
            REQUEST,
            messages=(HookMessage(role="system", text=7), *REQUEST.messages[1:]),  # type: ignore[arg-type]
        ),
        "int, not text",
    ),
    "a status": (RESULT, dataclasses.replace(RESULT, status="completed"), "it changed status"),
    "an end": (END, dataclasses.replace(END, answer="y"), "nothing of it may be changed"),
}
POINT_OF = {
    ToolCall: "tool_call.before",
    ModelRequest: "model_request.before",
    ToolResult: "tool_call.after",
    RunEnd: "run.after",
}


@pytest.mark.req("EXT-10")
@pytest.mark.parametrize("name", CHANGES)
async def test_what_may_not_be_changed_is_refused_by_name_or_ignored_as_said(name: str):
    event, given, part = CHANGES[name]
    point = POINT_OF[type(event)]
    with pytest.raises(HookResultInvalid) as caught:
        await hooks(lambda _: given, point).apply(event)
    assert part in caught.value.message
    with captured() as lines:
        kept = await hooks(lambda _: given, point, on_error="ignore").apply(event)
    assert kept is event
    assert "is ignored" in lines.getvalue()


@pytest.mark.req("EXT-10")
async def test_deep_values_are_refused_and_an_observer_may_not_answer():
    deep: Any = {}
    for _ in range(150):
        deep = {"x": deep}
    with pytest.raises(HookResultInvalid, match="nested too deeply"):
        await hooks(lambda event: dataclasses.replace(event, args=deep)).apply(CALL)
    with pytest.raises(HookResultInvalid, match="observes=True"):
        await hooks(lambda event: event, observes=True).apply(CALL)


@pytest.mark.req("EXT-10")
async def test_a_hook_that_does_not_end_is_left_in_time_whatever_holds_it():
    free = threading.Event()

    released = asyncio.Event()

    async def swallows(event: ToolCall) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await released.wait()

    try:
        for function in (lambda _: free.wait(20), swallows):
            with pytest.raises(HookTimeout, match=r"within 0\.05 seconds"):
                await asyncio.wait_for(hooks(function, timeout=0.05).apply(CALL), 5)
            late = hooks(function, timeout=0.05, on_error="ignore")
            assert await asyncio.wait_for(late.apply(CALL), 5) is CALL
    finally:
        free.set()
        released.set()


@pytest.mark.req("EXT-10")
async def test_a_cancelled_run_takes_its_hook_along():
    reached, gone = asyncio.Event(), asyncio.Event()

    async def waits(event: ToolCall) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    task = asyncio.create_task(hooks(waits).apply(CALL))
    await asyncio.wait_for(reached.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone.is_set()


@pytest.mark.req("EXT-10")
async def test_a_refusal_holds_where_refusing_is_possible_and_is_a_failure_elsewhere():
    def refuse(_: Any) -> None:
        raise ToolDenied("not with token=abcdefgh12345678")

    with pytest.raises(ToolDenied) as caught:
        await hooks(refuse, on_error="ignore").apply(CALL)
    assert caught.value.message == "not with token=***"
    with pytest.raises(HookFailed):
        await hooks(refuse, "tool_call.after").apply(RESULT)
    start = SubRunStart(run=RUN, agent="other", task="x")
    with pytest.raises(ToolDenied):
        await hooks(refuse, "sub_run.before").apply(start)


@pytest.mark.req("EXT-10")
def test_what_a_hook_is_given_reads_like_plain_json_and_copies_are_plain():
    given = CALL.args
    assert json.dumps(given) == '{"path": "/a", "lines": ["x", {"y": 1}]}'
    copied = copy.deepcopy(given)
    copied["lines"].append(2)  # pyright: ignore[reportIndexIssue]
    assert type(copied) is dict
    assert {**given, "path": "/b"}["path"] == "/b"
    for change in ("clear", "popitem"):
        with pytest.raises(TypeError, match="read-only"):
            getattr(given, change)()
    with pytest.raises(TypeError, match="read-only"):
        given["lines"].append(1)
    assert isinstance(HookError(), Exception)


@pytest.mark.req("EXT-10")
async def test_a_hook_that_forces_a_change_onto_its_record_changes_nothing():
    def forces(event: ToolCall) -> None:
        object.__setattr__(event, "args", {"path": "/etc"})

    given = await hooks(forces).apply(CALL)
    assert given is CALL
    assert given.args["path"] == "/a"


class Odd(ToolDenied):
    """Does not call our constructor."""

    def __init__(self) -> None:
        pass


class Speechless(ToolDenied):
    """Has nothing to say."""

    def __init__(self) -> None:
        super().__init__(self)  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.req("EXT-10", "EXT-09")
@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (lambda: ToolDenied(7), "7"),  # pyright: ignore[reportArgumentType]
        (lambda: ToolDenied({"token": "abcdefgh"}), "***"),  # pyright: ignore[reportArgumentType]
        (Odd, "Odd"),
        (Speechless, "Speechless"),
    ],
)
async def test_a_refusal_without_a_text_is_still_a_refusal(
    raised: Callable[[], Exception], reason: str
):
    def refuse(_: Any) -> None:
        raise raised()

    with pytest.raises(ToolDenied) as caught:
        await hooks(refuse).apply(CALL)
    assert reason in caught.value.message
    with pytest.raises(HookFailed):
        await hooks(refuse, "tool_call.after").apply(RESULT)


@pytest.mark.req("EXT-10")
async def test_a_hook_that_hangs_again_and_again_takes_no_more_threads_than_it_may():
    free, calls = threading.Event(), []

    def hangs(event: ToolCall) -> None:
        calls.append(event)
        free.wait(30)

    late = hooks(hangs, timeout=0.01, on_error="ignore")
    try:
        for _ in range(30):
            assert await late.apply(CALL) is CALL
        assert len(calls) == 16
        with pytest.raises(HookTimeout, match="16 earlier calls have not ended"):
            await hooks(hangs, timeout=0.01).apply(CALL)
    finally:
        free.set()
    async with asyncio.timeout(10):
        while len(calls) == 16:
            await late.apply(CALL)
