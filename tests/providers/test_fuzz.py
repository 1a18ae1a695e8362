"""Good streams, damaged at random: each ends as a named error or a valid message (P8, P9)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from core import errors
from core.ports import ModelHandle
from providers.assembly import Assembler, StreamFailure
from providers.calls import settle
from providers.history import HistoryEncoder
from providers.sse import SseDecoder
from tests.providers.conftest import MakeModel, Shown
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_strict import Rules, fault_of
from tests.support.scripted_turns import Raw, Reset, Stall, Step, Turn, calls, frame, say

ASK = [HumanMessage("go")]

MODELS: dict[int, ModelHandle] = {}
"""One model for all examples: making it takes longer than asking it."""

GOOD = (
    say("A plain answer, 一段中文, and 😀.", reasoning="first I think", size=3),
    say("<think>tagged</think>then the answer", size=4),
    calls([("add", {"a": 1, "b": 2}, "c1"), ("write", {"path": "/ü", "text": "x" * 40}, "c2")],
          text="I call two tools", reasoning="why not"),
)  # fmt: skip


def wire_of(turn: Turn) -> list[bytes]:
    """Return the frames of a turn as the bytes that are sent."""
    frames = [step for step in turn.steps if isinstance(step, dict)]
    return [b"data: " + json.dumps(one).encode() + b"\n\n" for one in frames] + [
        b"data: [DONE]\n\n"
    ]


JUNK: tuple[bytes, ...] = (
    b": comment\n\n", b"data: null\n\n", b"data: {}\n\n", b"data: [1]\n\n", b"data: {\"a\n\n",
    b"data:\n\n", b"\n\n\n", b"event: ping\ndata: {\"type\": \"ping\"}\n\n", b"\x00\xff\xfe",
    b'data: {"choices": null}\n\n', b'data: {"choices": [null]}\n\n',
    b'data: {"choices": [{"delta": {"content": 5, "tool_calls": "x"}}]}\n\n',
    b'data: {"choices": [{"delta": {"tool_calls": [null, {"index": -1}]}}]}\n\n',
    b'data: {"choices": [{"finish_reason": 7}], "usage": 5}\n\n',
    b'data: {"error": null, "choices": [{"delta": {"content": "\\ud800"}}]}\n\n',
    b'data: {"error": {"message": "died", "code": 502}}\n\n', b"<html>",
    b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\n',
    b"data: " + b"[" * 2000 + b"\n\n",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> list[bytes]:
    """Split, drop, repeat, reorder, cut, corrupt."""
    frames = wire_of(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(frames) - 1)) if frames else 0
        match draw(st.sampled_from(["drop", "repeat", "swap", "cut", "junk", "flip", "tear"])):
            case "drop":
                del frames[place : place + 1]
            case "repeat":
                frames[place:place] = frames[place : place + 1]
            case "swap":
                frames[place : place + 2] = frames[place : place + 2][::-1]
            case "cut":
                del frames[place:]
            case "junk":
                frames.insert(place, draw(st.sampled_from(JUNK)))
            case "flip" if frames and frames[place]:
                frames[place] = _flipped(frames[place], draw(st.integers(0, 10_000)))
            case "tear" if frames:
                frames[place] = frames[place][: draw(st.integers(0, len(frames[place])))]
            case _:
                pass
    return frames


def _flipped(data: bytes, where: int) -> bytes:
    place = where % len(data)
    return data[:place] + bytes([data[place] ^ (1 << where % 8)]) + data[place + 1 :]


def assembled(pieces: Sequence[bytes]) -> tuple[Any, ...]:
    """Decode and assemble bytes without a network; return everything that came of it."""
    decoder, assembler = SseDecoder(), Assembler()
    shown: dict[str, str] = {"text": "", "thinking": ""}
    events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
    failure = ""
    try:
        for _, data in events:
            if data != b"[DONE]":
                for kind, text in assembler.feed(json.loads(data)):
                    shown[kind] += text
        for kind, text in assembler.close():
            shown[kind] += text
    except (StreamFailure, ValueError, RecursionError) as error:
        failure = type(error).__name__
    turn = assembler.turn
    return shown["text"], shown["thinking"], turn.finish, str(turn.joiner.calls), failure


@pytest.mark.req("MODEL-04", "L02", "L10")
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(GOOD), st.data())
def test_where_bytes_are_split_never_changes_a_turn(turn: Turn, data: st.DataObject) -> None:
    body = b"".join(wire_of(turn))
    places = sorted({0, len(body), *data.draw(st.lists(st.integers(0, len(body)), max_size=40))})
    pieces = [body[a:b] for a, b in itertools.pairwise(places)]
    assert assembled(pieces) == assembled([body])
    assert assembled([bytes([one]) for one in body]) == assembled([body])


@pytest.mark.req("MODEL-04", "L10", "L11")
@settings(deadline=None)
@given(damaged(), st.data())
def test_damage_is_seen_the_same_however_it_is_split(
    frames: list[bytes], data: st.DataObject
) -> None:
    body = b"".join(frames)
    places = sorted({0, len(body), *data.draw(st.lists(st.integers(0, len(body)), max_size=10))})
    assert assembled([body[a:b] for a, b in itertools.pairwise(places)]) == assembled([body])


def judge(message: AIMessage, frames: Sequence[bytes], shown: Shown) -> None:
    """Check a message against promises P8 to P10."""
    assert any(b"finish_reason" in one for one in frames), "an end was confirmed"
    assert shown.joined() == message.content, "stored text and shown text are equal"
    every = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [one["id"] for one in every]
    assert all(ids) and len(set(ids)) == len(ids)
    assert all(isinstance(one["args"], dict) and one["name"] for one in message.tool_calls)
    if message.response_metadata["truncated"]:
        assert message.tool_calls == []
    assert message.usage_metadata["input_tokens"] > 0
    results = [ToolMessage("r", tool_call_id=id) for id in ids]
    sent = HistoryEncoder().encode([*ASK, message, *results, HumanMessage("next")])
    assert fault_of({"model": "m", "messages": sent}, Rules()) is None
    assert message.model_dump_json().encode()


@pytest.mark.req("L10", "L11", "L12", "L14", "MODEL-04", "EXEC-14")
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    frames=damaged(),
    end=st.sampled_from([(), (Reset(),)]),
    piece=st.sampled_from([None, None, None, 7, 64]),
)
@example(
    frames=[b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'], end=(Stall(),), piece=None
)
async def test_any_damaged_stream_ends_in_a_named_error_or_a_valid_message(
    scripted: ScriptedServer,
    make_model: MakeModel,
    frames: list[bytes],
    end: tuple[Step, ...],
    piece: int | None,
) -> None:
    model = make_model(model_idle_timeout=0.3) if not scripted.requests else MODELS[scripted.port]
    MODELS[scripted.port] = model
    scripted.default = Turn((*map(Raw, frames), *end), usage=None, piece=piece)
    shown = Shown()
    try:
        ended = await model.ask(ASK, message_id="m1", sink=shown)
    except errors.ProviderError as error:
        ended = error
    if isinstance(ended, AIMessage):
        judge(ended, frames, shown)
    else:
        assert ended.code.startswith(("provider_", "context_"))
        assert ended.partial_text == shown.joined()
        assert ended.details["provider"] == model.provider


@pytest.mark.req("L02", "L04", "L14")
@given(
    st.lists(
        st.one_of(
            st.none() | st.integers() | st.text(max_size=3),
            st.fixed_dictionaries(
                {},
                optional={
                    "index": st.none() | st.integers(-1, 2) | st.text(max_size=1),
                    "id": st.none() | st.sampled_from(["", "a", "b"]) | st.integers(),
                    "type": st.just("function"),
                    "function": st.none()
                    | st.fixed_dictionaries(
                        {},
                        optional={
                            "name": st.none() | st.sampled_from(["", "f", "g"]),
                            "arguments": st.none()
                            | st.sampled_from(["", "{}", '{"a":', "1}", "[1]", "NaN"])
                            | st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
                        },
                    ),
                },
            ),
        ),
        max_size=8,
    )
)
def test_any_fragments_give_calls_with_unique_ids(fragments: list[Any]) -> None:
    assembler = Assembler()
    for fragment in fragments:
        list(assembler.feed(frame({"tool_calls": [fragment]})))
    valid, invalid = settle(assembler.turn.joiner.calls, frozenset({"a"}))
    ids = [one["id"] for one in (*valid, *invalid)]
    assert len(set(ids)) == len(ids) and all(ids) and "a" not in ids
    assert all(isinstance(one["args"], dict) and one["name"] for one in valid)
    assert all(one["error"] for one in invalid)
