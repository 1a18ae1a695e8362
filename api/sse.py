"""The one place where events become Server-Sent Events, and where their streams begin and end.

A frame is `id: <run_id>:<seq>`, then `data: {json}`, then a blank line; a comment every fifteen
seconds keeps proxies from cutting a quiet stream.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import AppStatus
from starlette.types import Message, Receive, Scope, Send

from core.clock import Clock
from core.errors import BadRequest, Forbidden, Unauthenticated, Unavailable
from core.events import StoredEvent
from core.ids import is_uuid

HEARTBEAT_SECONDS: Final = 15
RECHECK_SECONDS: Final = 3.0
"""How often an open stream asks whether its credential still holds. With the 1.5 s for which
`identity.cache` remembers an answer that stays under the 5 s of Z02."""

_BREAKS: Final = {b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029", b"\xc2\x85": b"\\u0085"}
"""Characters at which many clients split lines, though the protocol does not."""

_PLACE: Final = re.compile(r"(?P<run>[0-9A-Fa-f-]{36}):(?P<seq>[0-9]{1,15})")

_EVENT_SCHEMA: Final = {
    "type": "object",
    "description": "One event of the stream.",
    "required": ["id", "data"],
    "properties": {
        "id": {"type": "string", "description": "`<run_id>:<seq>`"},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/Frame"},
        },
    },
}

Check = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Stream:
    """What one stream of events needs beside the events."""

    session_id: str
    run_id: str
    clock: Clock
    check: Check
    """Raises once the caller may no longer read."""
    on_gone: Callable[[], Awaitable[None]] | None = None
    """Called once where the client left before the end."""

    def headers(self) -> dict[str, str]:
        """Return the headers of CHAT-02."""
        return {
            "X-Session-Id": self.session_id,
            "X-Run-Id": self.run_id,
            "X-Accel-Buffering": "no",
            "Cache-Control": "no-store",
        }


class EventStream(EventSourceResponse):
    """Answers with the events of a run.

    Everything that must happen at the end is tied to this object's call, never to the generator:
    where the client is gone before the first byte, the generator never begins and its `finally`
    never runs (S03).
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[StoredEvent], stream: Stream) -> None:
        self._stream = stream
        self._gone = False
        self._told_all = False
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - a bare dict in its types
            self._frames(events),
            headers=stream.headers(),
            ping=HEARTBEAT_SECONDS,
            sep="\n",
            ping_message_factory=_heartbeat,
            client_close_handler_callable=self._mark_gone,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until the run rests, the client leaves, or the credential is withdrawn."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, tasks.cancel_scope)
                await super().__call__(scope, receive, send)
                tasks.cancel_scope.cancel()
        finally:
            if self._gone and self._stream.on_gone is not None:
                with anyio.CancelScope(shield=True):
                    await self._stream.on_gone()

    async def _frames(self, events: AsyncIterator[StoredEvent]) -> AsyncGenerator[bytes]:
        async with aclosing(cast("AsyncGenerator[StoredEvent]", events)) as source:
            async for event in source:
                yield frame(event)
        self._told_all = True

    async def _mark_gone(self, _: Message) -> None:
        # The server says the same of an answer that is complete: a run that waits with a
        # question would be cancelled under the eyes of whoever reads it.
        self._gone = not self._told_all

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """Cut the stream once the caller was signed out, revoked or disabled."""
        while True:
            await self._stream.clock.sleep(RECHECK_SECONDS)
            try:
                # Not cut off where the stream ends meanwhile: that would cost a connection.
                with anyio.move_on_after(RECHECK_SECONDS, shield=True):
                    await self._stream.check()
            except (Unauthenticated, Forbidden):
                scope.cancel()
            except Unavailable:
                # Nobody can be asked, and nothing new can be said either: asked again in a moment.
                continue


def begin() -> None:
    """Forget that an earlier server of this process was told to end.

    The library keeps that in a global of its own, which nothing takes back: every stream of the
    next server would end at once.
    """
    AppStatus.should_exit = False


def one_line(data: bytes) -> bytes:
    """Return JSON without any character that some client takes for the end of a line."""
    if not data.isascii():
        for character, escaped in _BREAKS.items():
            data = data.replace(character, escaped)
    return data


def frame(event: StoredEvent) -> bytes:
    """Return one event as it goes over the wire."""
    data = one_line(orjson.dumps(event.frame()))
    return b"id: %b:%d\ndata: %b\n\n" % (event.run_id.encode(), event.seq, data)


def place_in(run_id: str, last_event_id: str | None, after: int) -> int:
    """Return the number after which to go on in this run.

    `Last-Event-ID` counts before `after`, because a browser that reconnects repeats the address
    it began with. The id of another run means that this run's reader has nothing of it yet:
    everything is replayed. So it is for a number that the run has not reached; never a gap.

    Raises:
        BadRequest: the header is not `<run_id>:<seq>`.
    """
    if not last_event_id:
        return after
    match = _PLACE.fullmatch(last_event_id)
    if match is None or not is_uuid(match["run"]):
        raise BadRequest("Last-Event-ID must be `<run_id>:<seq>`, as the stream sent it.")
    return int(match["seq"]) if match["run"].lower() == run_id else 0


def openapi_stream(example: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI description of a 200 that streams."""
    data = orjson.dumps(dict(example)).decode()
    text = f"id: {example['run_id']}:{example['seq']}\ndata: {data}\n\n"
    headers = {
        name: {"schema": {"type": "string"}, "description": meaning}
        for name, meaning in {
            "X-Session-Id": "Session of the run.",
            "X-Run-Id": "The run.",
            "X-Trace-Id": "Trace id of the run.",
        }.items()
    }
    return {
        "description": "Events of the run; the frames are described by the schema `Frame`.",
        "headers": headers,
        "content": {"text/event-stream": {"schema": _EVENT_SCHEMA, "example": text}},
    }


# Helpers ----------------------------------------------------------------------------------


def _heartbeat() -> ServerSentEvent:
    return ServerSentEvent(comment="", sep="\n")
