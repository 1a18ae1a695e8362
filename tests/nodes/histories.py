"""Random conversations, whole and broken, and a strict check of what may be sent."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IDS = ("", "k1", "k2", "k3", "k4", "k5")

_texts = st.sampled_from(["", "yes", "look into it", "  ", "写一份报告", "x" * 3_000])
_calls = st.lists(
    st.tuples(
        st.sampled_from(_IDS),
        st.sampled_from(["add", "read page", "", "t" * 80]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)
_events = st.one_of(
    st.tuples(st.just("user"), _texts),
    st.tuples(st.just("agent"), _texts),
    st.tuples(st.just("calls"), _calls),
    st.tuples(st.just("result"), st.tuples(st.sampled_from([*_IDS, "foreign"]), _texts)),
    st.tuples(st.just("results of the last turn"), st.integers(0, 4)),
)


def histories() -> st.SearchStrategy[list[AnyMessage]]:
    """Conversations with parallel, late, doubled, missing, foreign and broken calls."""
    return st.lists(_events, max_size=25).map(_history)


def _history(events: list[tuple[str, Any]]) -> list[AnyMessage]:
    numbers = itertools.count()
    history: list[AnyMessage] = []
    for kind, value in events:
        number = f"m{next(numbers)}"
        if kind == "user":
            history.append(HumanMessage(value or "go on", id=number))
        elif kind == "agent":
            history.append(AIMessage(value, id=number))
        elif kind == "calls":
            history.append(_turn(value, number))
        elif kind == "result":
            history.append(ToolMessage(value[1], tool_call_id=value[0], id=number))
        else:
            history.extend(_answers(history, value, number))
    return history


def _turn(calls: list[tuple[str, str, bool]], number: str) -> AIMessage:
    whole = [{"id": id, "name": name, "args": {"a": 1}} for id, name, readable in calls if readable]
    broken = [
        {"id": id, "name": name, "args": '{"a": 1, "b', "error": "cut"}
        for id, name, readable in calls
        if not readable
    ]
    return AIMessage("", id=number, tool_calls=whole, invalid_tool_calls=broken)


def _answers(history: list[AnyMessage], count: int, number: str) -> list[ToolMessage]:
    turns = [m for m in history if isinstance(m, AIMessage) and m.tool_calls]
    calls = turns[-1].tool_calls[:count] if turns else []
    return [
        ToolMessage("result " * 400, tool_call_id=call["id"] or "", id=f"{number}.{index}")
        for index, call in enumerate(calls)
    ]


def fault_of(view: list[BaseMessage]) -> str | None:
    """Return why a strict provider would refuse the list, or None."""
    return next(_faults(view), None)


def _faults(view: list[BaseMessage]) -> Iterator[str]:
    kinds = [type(message) for message in view]
    if kinds[:1] != [SystemMessage] or kinds.count(SystemMessage) > 1:
        yield "there is not exactly one system message at the front"
    if kinds[1:2] not in ([], [HumanMessage]):
        yield "the conversation does not begin with the user"
    yield from _pairing_faults(view)
    ids = [call["id"] for m in view if isinstance(m, AIMessage) for call in m.tool_calls]
    if not all(ids) or len(set(ids)) < len(ids):
        yield "a call id is empty or used twice"


def _pairing_faults(view: list[BaseMessage]) -> Iterator[str]:
    waiting: list[str] = []
    for before, message in itertools.pairwise(view):
        if isinstance(message, ToolMessage):
            if not waiting or message.tool_call_id != waiting.pop(0):
                yield f"result {message.tool_call_id!r} is out of place"
            continue
        if waiting:
            yield f"calls without result: {waiting}"
        if type(message) is type(before):
            yield f"two messages of one kind follow each other: {message.type}"
        if isinstance(message, AIMessage):
            yield from _turn_faults(message)
            waiting = [str(call["id"]) for call in message.tool_calls]
    if waiting:
        yield f"calls without result: {waiting}"


def _turn_faults(turn: AIMessage) -> Iterator[str]:
    if turn.invalid_tool_calls:
        yield "a call has unreadable arguments"
    if not turn.tool_calls and not turn.text.strip():
        yield "an assistant turn is empty"
    for call in turn.tool_calls:
        if not _NAME.fullmatch(call["name"]) or not isinstance(call["args"], dict):
            yield f"call {call!r} is malformed"
