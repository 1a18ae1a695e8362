"""Whole lists of events as tests compare them: ids, times and counts are holes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from core.events import StoredEvent

HOLES = {
    "message_id": "<message>",
    "tool_call_id": "<call>",
    "interrupt_token": "<token>",
    "duration_ms": "<ms>",
    "context_tokens": "<tokens>",
    "usage": "<usage>",
}
"""Fields that differ from run to run, and what stands in their place."""


def snapshot_of(events: Iterable[StoredEvent]) -> list[dict[str, Any]]:
    """Return the events without what differs from run to run, adjacent tokens joined.

    How tokens are cut into events depends on time; their text does not.
    """
    joined: list[dict[str, Any]] = []
    for event in events:
        data = dict(event.data)
        last = joined[-1] if joined else {}
        if (
            data["type"] in ("token", "thinking_token")
            and last.get("type") == data["type"]
            and last["message_id"] == data["message_id"]
        ):
            last["content"] += data["content"]
        else:
            joined.append(data)
    return [_with_holes(data) for data in joined]


def _with_holes(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: HOLES[key] if key in HOLES and item else _with_holes(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_with_holes(item) for item in value]
    return value


async def all_of(stream: AsyncIterator[StoredEvent]) -> list[StoredEvent]:
    """Read a stream to its end."""
    return [event async for event in stream]


def types_of(events: Iterable[StoredEvent]) -> list[str]:
    """Return the types of events, runs of equal ones as one."""
    types: list[str] = []
    for event in events:
        if not types or types[-1] != event.type:
            types.append(event.type)
    return types


def text_of(events: Iterable[StoredEvent]) -> str:
    """Return the answer's text as a watcher puts it together."""
    texts: dict[str, str] = {}
    for event in events:
        if event.type == "token":
            message_id = event.data["message_id"]
            texts[message_id] = texts.get(message_id, "") + event.data["content"]
        elif event.type == "message_reset":
            texts.pop(event.data["message_id"], None)
    return "\n".join(texts.values())
