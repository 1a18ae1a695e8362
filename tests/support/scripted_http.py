"""Just enough HTTP/1.1 to send right and wrong answers byte by byte: one connection at a time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from core.clock import SystemClock
from tests.support.scripted_turns import (
    Gate,
    Pause,
    Raw,
    Reset,
    Stall,
    Step,
    Turn,
    UsageFrame,
    Wait,
)

_LINGER_ZERO = struct.pack("ii", 1, 0)
"""Makes closing a socket send RST."""

_REASONS = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 500: "Internal Server Error"}


class ClientLeft(Exception):
    """The client closed its side."""


class Exchange:
    """One request that was read and the answer that is written."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gates: list[Gate]
    ) -> None:
        self._reader, self._writer, self._gates = reader, writer, gates
        self.method = self.path = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    async def read(self) -> bool:
        """Read the next request; False when the client is done."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines if ":" in line)
        self.headers = {key.strip().lower(): value.strip() for key, value in pairs}
        length = int(self.headers.get("content-length", "0"))
        self.body = await self._reader.readexactly(length)
        return True

    async def write(self, turn: Turn, usage: Callable[[], Mapping[str, Any] | None]) -> None:
        """Write the turn.

        Raises:
            ClientLeft: the client did not wait for the end.
            ConnectionResetError: the turn itself reset the connection.
        """
        for step in turn.before_headers:
            await self._step(step, turn, usage)
        status = f"HTTP/1.1 {turn.status} {_REASONS.get(turn.status, 'Scripted')}"
        fields = {"content-type": turn.content_type, "transfer-encoding": "chunked", **turn.headers}
        head = "\r\n".join([status, *(f"{key}: {value}" for key, value in fields.items())])
        await self._send(f"{head}\r\n\r\n".encode("latin-1"))
        for step in turn.steps:
            await self._step(step, turn, usage)
        await self._send(b"0\r\n\r\n")

    async def _step(self, step: Step, turn: Turn, usage: Callable[[], Any]) -> None:
        if isinstance(step, Pause):
            await self._unless_left(SystemClock().sleep(step.seconds))
        elif isinstance(step, Wait):
            self._gates.append(step.gate)
            await self._unless_left(step.gate.pass_through(asyncio.get_running_loop()))
        elif isinstance(step, Stall):
            await self._unless_left(asyncio.Event().wait())
        elif isinstance(step, Reset):
            self.reset()
            raise ConnectionResetError
        else:
            await self._body(_encoded(step, usage), turn)

    async def _body(self, data: bytes, turn: Turn) -> None:
        size = turn.piece or len(data) or 1
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            await self._send(b"%x\r\n%b\r\n" % (len(piece), piece))
            if turn.piece:
                await SystemClock().sleep(turn.piece_pause)

    async def _send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError as error:
            raise ClientLeft from error
        if self._reader.at_eof():
            raise ClientLeft

    async def _unless_left(self, waiting: Any) -> None:
        """Wait, but no longer than the client does."""
        wait = asyncio.ensure_future(waiting)
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait({wait, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientLeft
        finally:
            for task in (wait, gone):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await task

    def reset(self) -> None:
        """Close with a TCP reset."""
        plug: socket.socket = self._writer.get_extra_info("socket")
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._writer.transport.abort()


def _encoded(step: Step, usage: Callable[[], Any]) -> bytes:
    if isinstance(step, Raw):
        return step.data
    if isinstance(step, UsageFrame):
        counted = usage()
        if counted is None:
            return b""
        step = {"id": "chatcmpl-s", "object": "chat.completion.chunk", "created": 1,
                "model": "scripted", "choices": [], "usage": counted}  # fmt: skip
    return b"data: " + json.dumps(step).encode() + b"\n\n"


def whole_body(turn: Turn, usage: Mapping[str, Any] | None) -> bytes:
    """Encode the turn as the answer to a request without `stream`."""
    choice = {"index": 0, **(turn.whole or {})}
    body: dict[str, Any] = {"id": "chatcmpl-s", "object": "chat.completion", "created": 1,
                            "model": "scripted", "choices": [choice]}  # fmt: skip
    if usage is not None:
        body["usage"] = usage
    return json.dumps(body).encode()


def text_of(steps: Iterable[Step]) -> str:
    """Return everything the frames say, for counting."""
    return "".join(json.dumps(step) for step in steps if isinstance(step, Mapping))
