"""Turns whatever a tool returned or raised into one shape (EXT-09)."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel

from core.errors import GraphwrightError
from core.masking import mask_known, mask_told
from core.text import clean
from core.tooling import Source, Sourced

Status = Literal["completed", "failed", "denied", "timeout"]

MOST: Final = 1_000_000
"""Characters of a result that are kept; what lies beyond is gone, and said so."""

_DEPTH: Final = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one tool call ended."""

    status: Status
    data: Any
    """JSON-ready."""
    error: str | None = None
    sources: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def full(self) -> str:
        """The whole result as text."""
        return self.data if isinstance(self.data, str) else _dump(self.data)


def completed(value: Any) -> Outcome:
    """Return the outcome of a call that returned `value`, whatever that is."""
    sources: tuple[dict[str, Any], ...] = ()
    if isinstance(value, Sourced):
        sources = tuple(_source(item) for item in value.sources)
        value = value.data
    room = _Room(MOST)
    data = _plain(value, room, 0)
    meta = {"cut": f"Only the first {MOST} characters were kept."} if room.cut else {}
    return Outcome("completed", data, sources=sources, meta=meta)


def told(error: GraphwrightError) -> str:
    """Return what an error of ours says that an extension raised, fit to be shown.

    Its author wrote the text and may have put another exception's into it; it may be no text.
    """
    try:
        # A class of theirs need not have called the constructor of ours.
        message: object = getattr(error, "message", None)
        text = message if isinstance(message, str) else str(error if message is None else message)
    except Exception:  # boundary: a foreign __str__
        text = ""
    return mask_told(clean(text)) or type(error).__name__


def failed(message: str, status: Status = "failed") -> Outcome:
    """Return the outcome of a call that did not work; the message reaches model and user."""
    text = mask_known(clean(message))[:4_000]
    return Outcome(status, text, error=text)


def for_model(outcome: Outcome, limit: int, whole: str | None = None) -> str:
    """Return what the model sees: JSON of status, data and meta, within the limit.

    Args:
        outcome: how the call ended.
        limit: characters of data that are shown.
        whole: how the rest can be read, where it was stored.
    """
    meta = dict(outcome.meta)
    if outcome.sources:
        meta["sources"] = list(outcome.sources)
    data = outcome.data
    full = outcome.full
    if len(full) > limit:
        tail = limit // 5
        data = f"{full[: limit - tail]}\n… left out …\n{full[-tail:]}"
        meta["shortened_from"] = len(full)
        meta["whole"] = whole or "not available"
    return _dump({"status": outcome.status, "data": data, "meta": meta})


class _Room:
    """Characters that may still be kept, so that a huge result is never copied whole."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.cut = False

    def take(self, text: str) -> str:
        """Return as much of the text as there is room for, without what is known to be secret."""
        text = mask_known(text)
        if len(text) > self.left:
            text, self.cut = text[: max(self.left, 0)], True
        self.left -= len(text) + 1
        return text

    @property
    def spent(self) -> bool:
        if self.left <= 0:
            self.cut = True
        return self.left <= 0


def _plain(value: Any, room: _Room, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and type(value) in (int, float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        value = _decode(bytes(value[: MOST + 1]))
    if isinstance(value, str):
        return clean(room.take(str(value)))
    return _nested(_open(value), room, depth) if depth < _DEPTH else "…"


def _nested(value: Any, room: _Room, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _mapping(value, room, depth)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return _list(value, room, depth)
    return clean(room.take(value if isinstance(value, str) else _named(value)))


def _open(value: Any) -> Any:
    """Return the plain content of well-known kinds of objects."""
    if isinstance(value, type | BaseException):
        # An exception's text may carry addresses and paths, as that of one that is raised.
        return value.__name__ if isinstance(value, type) else f"({type(value).__name__})"
    if dataclasses.is_dataclass(value):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda item: (type(item).__name__, str(item)))
    return value


def _mapping(value: Mapping[Any, Any], room: _Room, depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        if room.spent:
            break
        plain[clean(room.take(str(key)))] = _plain(item, room, depth + 1)
    return plain


def _list(value: Iterable[Any], room: _Room, depth: int) -> list[Any]:
    plain: list[Any] = []
    for item in value:
        if room.spent:
            break
        room.left -= 2
        plain.append(_plain(item, room, depth + 1))
    return plain


def _number(value: float) -> Any:
    """Return numbers as JSON knows them; the others as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # Python refuses to write out integers with more digits than this.
    return value if isinstance(value, float) or value.bit_length() < 10_000 else hex(value)[:MOST]


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(value).decode()


def _named(value: Any) -> str:
    """Return a text for an object without a plain form; its repr could carry paths or hosts."""
    kind = type(value)
    return str(value) if kind.__str__ is not object.__str__ else f"({kind.__name__})"


def _source(item: Source) -> dict[str, Any]:
    return _plain(
        {"title": item.title, "url": item.url, "snippet": item.snippet, **dict(item.meta)},
        _Room(10_000),
        0,
    )


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
