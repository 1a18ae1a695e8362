"""What a scripted provider can answer: turns, made by small constructors that can be combined."""

from __future__ import annotations

import itertools
import json
import threading
from asyncio import AbstractEventLoop, Event
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Usage = Mapping[str, Any] | Literal["auto"] | None
"""`auto`: counted from the request and the answer; None: the server says nothing of it."""

_numbers = itertools.count(1)


class Gate:
    """A place where a turn stands still until the test opens it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set once a turn stands here."""
        self._open = False
        self._waiting: list[tuple[AbstractEventLoop, Event]] = []

    def open(self) -> None:
        """Let every turn pass, those that come later too."""
        self._open = True
        for loop, event in self._waiting:
            loop.call_soon_threadsafe(event.set)

    async def pass_through(self, loop: AbstractEventLoop) -> None:
        """Wait until the gate is open (called by the server)."""
        event = Event()
        self._waiting.append((loop, event))
        self.reached.set()
        if not self._open:
            await event.wait()


@dataclass(frozen=True)
class Raw:
    """Bytes of the body, sent as they are."""

    data: bytes


@dataclass(frozen=True)
class Pause:
    """A wait in seconds."""

    seconds: float


@dataclass(frozen=True)
class Wait:
    """A wait until the gate opens."""

    gate: Gate


@dataclass(frozen=True)
class Stall:
    """Nothing more is sent; the connection stays open until the client leaves."""


@dataclass(frozen=True)
class Reset:
    """The socket is closed with a TCP reset."""


@dataclass(frozen=True)
class UsageFrame:
    """Where the counted usage goes, if the request asked for it."""


Step = Mapping[str, Any] | Raw | Pause | Wait | Stall | Reset | UsageFrame
"""A mapping is one `data:` frame."""


@dataclass(frozen=True)
class Turn:
    """One answer. `steps` make the body; without a reset it ends as a proper clean close."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    whole: Mapping[str, Any] | None = None
    """The message of a non-stream answer: `{"message": …, "finish_reason": …}`."""
    usage: Usage = "auto"
    before_headers: tuple[Step, ...] = ()
    """Waits, stalls and resets before the first byte of the response."""
    piece: int | None = None
    """Write so many bytes at once, with a pause of `piece_pause` seconds between."""
    piece_pause: float = 0.0


TurnMaker = Callable[[Any], Turn]
"""Takes the `Seen` request and makes the turn."""


def frame(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Make one chat.completion.chunk with that delta; `more` adds fields beside `choices`."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return chunk([choice], **more)


def chunk(choices: Any, **more: Any) -> dict[str, Any]:
    """Make a chunk with exactly those choices."""
    base = {
        "id": "chatcmpl-s",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
    }
    return {**base, "choices": choices, **more}


DONE = Raw(b"data: [DONE]\n\n")


def say(
    text: str,
    *,
    reasoning: str = "",
    usage: Usage = "auto",
    finish: str | None = "stop",
    size: int = 6,
    pause: float = 0.0,
) -> Turn:
    """Answer with text, `size` characters a delta and `pause` seconds between deltas."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning_content"] = reasoning
    steps: list[Step] = [frame({"role": "assistant", "content": ""})]
    steps += _pieces("reasoning_content", reasoning, size, pause)
    steps += _pieces("content", text, size, pause)
    return _ended(steps, message, finish, usage)


def call(
    tool: str,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    id: str | None = None,
    text: str = "",
    reasoning: str = "",
    usage: Usage = "auto",
    finish: str | None = "tool_calls",
) -> Turn:
    """Call one tool. Arguments given as text are sent as they are."""
    asked = [(tool, arguments if arguments is not None else {}, id)]
    return calls(asked, text=text, reasoning=reasoning, usage=usage, finish=finish)


def calls(
    asked: Sequence[tuple[Any, ...]],
    *,
    text: str = "",
    reasoning: str = "",
    usage: Usage = "auto",
    finish: str | None = "tool_calls",
) -> Turn:
    """Call several tools in one turn: `(tool, arguments)` or `(tool, arguments, id)` each."""
    whole = [_tool_call(*one) for one in asked]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "tool_calls": whole}
    if reasoning:
        message["reasoning_content"] = reasoning
    steps: list[Step] = [frame({"role": "assistant", "content": None})]
    steps += _pieces("reasoning_content", reasoning, 6, 0)
    steps += _pieces("content", text, 6, 0)
    for index, one in enumerate(whole):
        steps += _call_frames(index, one)
    return _ended(steps, message, finish, usage)


def raw_frames(frames: Sequence[Step], *, done: bool = False, **fields: Any) -> Turn:
    """Send exactly these frames, then a clean close; `done` adds `[DONE]`."""
    return Turn((*frames, DONE) if done else tuple(frames), usage=None, **fields)


def error(
    status: int,
    body: Mapping[str, Any] | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Turn:
    """Refuse. Without a body it is the usual error object; text is sent as it is."""
    if body is None:
        body = {"error": {"message": f"scripted failure {status}", "code": status}}
    data = body if isinstance(body, str) else json.dumps(body)
    kind = "application/json" if data[:1] in ("{", "[") else "text/plain"
    return Turn((Raw(data.encode()),), status, headers or {}, kind)


def answer(body: Any, *, content_type: str = "application/json", status: int = 200) -> Turn:
    """Answer with this body whatever was asked for: a mapping as JSON, or text, or bytes."""
    if isinstance(body, bytes):
        data = body
    else:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
    return Turn((Raw(data),), status, {}, content_type)


def html(text: str = "<html><body>Welcome to the hotel network</body></html>") -> Turn:
    """Answer 200 with a web page, as a captive portal does."""
    return answer(text, content_type="text/html; charset=utf-8")


def cut(turn: Turn, after: int, *, reset: bool = False) -> Turn:
    """End the turn after that many steps: a clean close, or a TCP reset."""
    end: tuple[Step, ...] = (Reset(),) if reset else ()
    return replace(turn, steps=turn.steps[:after] + end)


def stall(turn: Turn | None = None, after: int = 0) -> Turn:
    """Send that many steps of the turn and then nothing more."""
    return replace(turn or Turn(), steps=(turn.steps[:after] if turn else ()) + (Stall(),))


def silent() -> Turn:
    """Accept the request and never answer, not even with headers."""
    return Turn(before_headers=(Stall(),))


def refuse_connection() -> Turn:
    """Reset the connection before any byte of the response."""
    return Turn(before_headers=(Reset(),))


def hold(turn: Turn, gate: Gate, after: int = 0) -> Turn:
    """Stand still at the gate after that many steps."""
    return replace(turn, steps=(*turn.steps[:after], Wait(gate), *turn.steps[after:]))


def drip(turn: Turn, piece: int = 1, pause: float = 0.001) -> Turn:
    """Send the body in small pieces."""
    return replace(turn, piece=piece, piece_pause=pause)


def slow(turn: Turn, seconds: float) -> Turn:
    """Wait before the headers."""
    return replace(turn, before_headers=(Pause(seconds),))


def echo(seen: Any) -> Turn:
    """Repeat the last user message: the turn that plays when nothing else fits."""
    return say(f"echo: {seen.last_user}")


def _pieces(key: str, text: str, size: int, pause: float) -> list[Step]:
    steps: list[Step] = []
    for start in range(0, len(text), size):
        steps.append(frame({key: text[start : start + size]}))
        if pause:
            steps.append(Pause(pause))
    return steps


def _tool_call(tool: str, arguments: Any, id: str | None = None) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    name = id or f"call_{next(_numbers)}"
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": text}}


def _call_frames(index: int, whole: Mapping[str, Any]) -> list[Step]:
    """Name first, then the arguments in two halves, as the big providers send them."""
    function = whole["function"]
    text = function["arguments"]
    middle = len(text) // 2
    first = {**whole, "index": index, "function": {"name": function["name"], "arguments": ""}}
    halves = [part for part in (text[:middle], text[middle:]) if part]
    more = [{"index": index, "function": {"arguments": part}} for part in halves]
    return [frame({"tool_calls": [one]}) for one in (first, *more)]


def _ended(steps: list[Step], message: Mapping[str, Any], finish: str | None, usage: Usage) -> Turn:
    if finish is not None:
        steps.append(frame({}, finish))
    steps += [UsageFrame(), DONE]
    return Turn(tuple(steps), whole={"message": message, "finish_reason": finish}, usage=usage)
