"""Whole runs as lists that can be read and compared: ids become labels, times become holes."""

from __future__ import annotations

from typing import Any

from tests.support.app import Frame, Reply

_COMMON = {"type", "session_id", "run_id", "seq", "trace_id"}
_TIMES = {"duration_ms"}
_IDS = {"message_id", "agent_id", "interrupt_token"}


def whole(reply: Reply) -> list[dict[str, Any]]:
    """Return every event of a stream without its common fields.

    Adjacent pieces of one text are joined, since where they are split depends on time. Ids are
    numbered in the order they appear; durations are left out.
    """
    assert_numbered(reply.frames)
    seen: dict[str, str] = {}
    events: list[dict[str, Any]] = []
    for frame in reply.frames:
        event = {key: value for key, value in frame.data.items() if key not in _COMMON | _TIMES}
        for key in _IDS & event.keys():
            event[key] = seen.setdefault(event[key], f"<{key} {len(seen)}>")
        event = {"type": frame.type, **event}
        before = events[-1] if events else {}
        same = before.get("message_id") == event.get("message_id")
        if frame.type in ("token", "thinking_token") and before.get("type") == frame.type and same:
            before["content"] += event["content"]
        else:
            events.append(event)
    return events


def types(reply: Reply) -> list[str]:
    """Return the types of the events, pieces of one text counted once."""
    return [event["type"] for event in whole(reply)]


def assert_numbered(frames: list[Frame]) -> None:
    """Check that a run's events are numbered without a gap, in the data and in the SSE id."""
    first = frames[0].data["seq"]
    for number, frame in enumerate(frames, start=first):
        assert frame.data["seq"] == number
        assert frame.id == f"{frame.data['run_id']}:{number}"


def card(reply: Reply) -> list[dict[str, Any]]:
    """Return the calls of the approval that a stream ended with."""
    assert reply.last["type"] == "interrupt", reply.last
    return reply.last["tool_approval"]["calls"]


async def history(served: Any, session_id: str) -> list[dict[str, Any]]:
    """Return the visible history of a session, oldest first."""
    answer = await served.client.get(f"/api/chat/history/{session_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return role and text of each message that has text."""
    spoken = []
    for message in messages:
        text = "".join(part["text"] for part in message["parts"] if part["type"] == "text")
        if text:
            spoken.append((message["role"], text))
    return spoken


def results(messages: list[dict[str, Any]]) -> dict[str, str | None]:
    """Return how each tool call of a history ended, by call id."""
    return {
        part["tool_call_id"]: (part["result"] or {}).get("status")
        for message in messages
        for part in message["parts"]
        if part["type"] == "tool_call"
    }


def shown(reply: Reply) -> str:
    """Return the text that a watcher sees in the end: tokens, less what was taken back."""
    pieces: dict[str, str] = {}
    for frame in reply.frames:
        if frame.type == "token":
            message = frame.data["message_id"]
            pieces[message] = pieces.get(message, "") + frame.data["content"]
        elif frame.type == "message_reset":
            pieces.pop(frame.data["message_id"], None)
    return "".join(pieces.values())
