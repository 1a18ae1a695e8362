"""One request to a provider and the reading of its answer off the wire, byte by byte.

Whatever the provider does, this ends in a confirmed turn or in a named `ProviderError` that
carries the text which had arrived (promises P8 and P9).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx
import orjson

from core import errors
from core.text import clean_value
from providers import faults
from providers.assembly import Assembler, Kind, StreamFailure, Turn
from providers.connection import Connection
from providers.sse import FrameTooLong, SseDecoder

Show = Callable[[Kind, str], None]

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of one answer; more is not an answer."""

_ERROR_BODY: Final = 64 * 1024
_TAIL_SECONDS: Final = 2.0
"""How long usage may come after the finish reason, and the end of the body after `[DONE]`."""
_COMMENT_PATIENCE: Final = 5
"""How many idle times a stream may live on keep-alive bytes alone."""


@dataclass(slots=True)
class Answer:
    """A confirmed turn and what the headers said."""

    turn: Turn
    request_id: str


async def ask(connection: Connection, payload: dict[str, Any], show: Show) -> Answer:
    """Send the payload, show the text as it comes and return the whole turn.

    Raises:
        ProviderError: with `partial_text` where part of the answer had arrived.
    """
    reader = _Reader(connection, show)
    try:
        return await reader.exchange(payload)
    except errors.ProviderError as error:
        error.partial_text = reader.turn.text
        error.partial_thinking = reader.turn.thinking
        error.details.setdefault("provider", connection.name)
        raise


class _Reader:
    """Reads one answer. Keeps what arrived, so that a failure can carry it."""

    def __init__(self, connection: Connection, show: Show) -> None:
        self._connection, self._show = connection, show
        self._assembler = Assembler()
        self._decoder = SseDecoder()
        self._over = False
        """`[DONE]` was seen."""
        self._heard = connection.clock.monotonic()
        self._bytes = 0

    @property
    def turn(self) -> Turn:
        return self._assembler.turn

    @property
    def _name(self) -> str:
        return self._connection.name

    async def exchange(self, payload: dict[str, Any]) -> Answer:
        client = await self._client()
        request = client.build_request("POST", self._connection.url, content=encode(payload))
        try:
            response = await client.send(request, stream=True)
        except httpx.TimeoutException as error:
            raise self._unanswered(error) from error
        except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
            raise errors.ProviderUnreachable(
                f"{self._name} cannot be reached: {_why(error)}"
            ) from error
        try:
            return await self._read(response)
        finally:
            await response.aclose()

    async def _client(self) -> httpx.AsyncClient:
        try:
            return await self._connection.client()
        except (ImportError, ValueError, OSError) as error:
            # A proxy variable that httpx cannot use, or certificates that cannot be read.
            raise errors.ProviderUnreachable(
                f"no client for {self._name} can be made: {_why(error)}"
            ) from error

    def _unanswered(self, error: httpx.TimeoutException) -> errors.ProviderError:
        if isinstance(error, httpx.ConnectTimeout):
            return errors.ProviderUnreachable(
                f"{self._name} did not accept a connection within"
                f" {self._connection.connect_timeout:g} s"
            )
        return self._silent()

    def _silent(self) -> errors.ProviderTimeout:
        return errors.ProviderTimeout(
            f"{self._name} sent nothing for {self._connection.idle_timeout:g} s"
        )

    async def _read(self, response: httpx.Response) -> Answer:
        if response.status_code >= 300:
            raise await self._refusal(response)
        if (
            self._connection.stream_options is None
            and b"stream_options" in response.request.content
        ):
            self._connection.stream_options = True
        try:
            await self._body(response)
        except httpx.TimeoutException as error:
            self._finish_or(self._silent(), error)
        except (httpx.TransportError, httpx.DecodingError, OSError) as error:
            self._finish_or(self._cut(f"the connection broke: {_why(error)}"), error)
        except StreamFailure as failure:
            self._pass_on(self._assembler.close())
            raise faults.from_object(self._name, failure.error, self._during()) from failure
        request_id = response.headers.get("x-request-id", "") or self.turn.id
        return Answer(self.turn, request_id[:200])

    async def _refusal(self, response: httpx.Response) -> errors.ProviderError:
        body = bytearray()
        try:
            async for data in response.aiter_bytes():
                body += data
                if len(body) >= _ERROR_BODY:
                    break
        except (httpx.HTTPError, OSError):
            pass  # the status says enough
        return faults.from_response(
            self._name,
            response.status_code,
            response.headers,
            bytes(body),
            self._connection.clock.now(),
        )

    async def _body(self, response: httpx.Response) -> None:
        """Read to the confirmed end, or raise."""
        stream = response.aiter_bytes()
        first = await self._first(stream)
        if first[:1] in (b"{", b"[", b"<"):
            await self._whole(first, stream)
            return
        self._take(first)
        async for data in stream:
            self._take(data)
            if self._over or self.turn.confirmed:
                break
        await self._tail(stream)
        self._events(self._decoder.close(), at_end=True)
        self._close()

    async def _first(self, stream: AsyncIterator[bytes]) -> bytes:
        """Read until it can be told what kind of body this is; content types often lie."""
        data = b""
        async for more in stream:
            data += more
            if data.removeprefix(b"\xef\xbb\xbf").strip():
                break
            data = data[-len(b"\xef\xbb\xbf") :] if len(data) > _ERROR_BODY else data
            self._patience(heard=False)
        bare = data.removeprefix(b"\xef\xbb\xbf").lstrip()
        return bare if bare[:1] in (b"{", b"[", b"<") else data

    async def _tail(self, stream: AsyncIterator[bytes]) -> None:
        """Read what comes after the end: usage, and the last bytes that free the connection."""
        if not (self._over or self.turn.confirmed):
            return
        try:
            async with asyncio.timeout(_TAIL_SECONDS):
                async for data in stream:
                    if not self._over:
                        self._take(data)
        except (TimeoutError, httpx.HTTPError, OSError):
            pass  # the turn is whole; only its usage may be missing

    def _take(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > LARGEST:
            raise errors.ProviderJunk(f"{self._name} sent more than {LARGEST} bytes")
        try:
            events = self._decoder.feed(data)
        except FrameTooLong as error:
            raise errors.ProviderJunk(f"{self._name} sent a frame without end") from error
        self._patience(heard=bool(events))
        self._events(events)

    def _patience(self, *, heard: bool) -> None:
        """Bound the time in which bytes come, but nothing that says anything."""
        now = self._connection.clock.monotonic()
        patience = self._connection.idle_timeout * _COMMENT_PATIENCE
        if heard:
            self._heard = now
        elif now - self._heard > patience:
            raise errors.ProviderTimeout(
                f"{self._name} sent only keep-alive bytes for {patience:g} s"
            )

    def _events(self, events: list[tuple[str, bytes]], *, at_end: bool = False) -> None:
        for name, data in events:
            if self._over:
                return
            if data.strip() == b"[DONE]":
                self._over = True
                continue
            try:
                chunks = _decoded(data)
            except ValueError as error:
                if at_end:
                    return  # the last frame was cut; whether the turn is whole is seen below
                raise self._cut("a frame is not JSON") from error
            for chunk in chunks:
                self._chunk(chunk, name)

    def _chunk(self, chunk: Any, event: str = "") -> None:
        if event == "error" and not (isinstance(chunk, dict) and chunk.get("choices")):
            raise StreamFailure(chunk)
        try:
            pieces = self._assembler.feed(chunk)
        except StreamFailure as failure:
            self._pass_on(failure.shown)
            raise
        self._pass_on(pieces)

    def _pass_on(self, pieces: list[tuple[Kind, str]]) -> None:
        for kind, text in pieces:
            self._show(kind, text)

    async def _whole(self, first: bytes, stream: AsyncIterator[bytes]) -> None:
        """Read a body that is no stream: a whole completion, an error, or something else."""
        body = bytearray(first)
        async for data in stream:
            body += data
            if len(body) > LARGEST:
                raise errors.ProviderJunk(f"{self._name} sent more than {LARGEST} bytes")
        try:
            value = _loads(bytes(body))
        except ValueError as error:
            said = faults.quote(bytes(body[:2000]).decode("utf-8", "replace"))
            raise errors.ProviderJunk(
                f"{self._name} answered with something that is not a chat completion: “{said}”"
            ) from error
        if not isinstance(value, dict) or not value.get("choices"):
            if isinstance(value, dict) and (value.get("error") or value.get("message")):
                raise StreamFailure(value)
            said = faults.quote(bytes(body[:2000]).decode("utf-8", "replace"))
            raise errors.ProviderJunk(f"{self._name} answered without a choice: “{said}”")
        self._chunk(value)
        if not (self.turn.confirmed or self.turn.joiner.calls or self.turn.empty):
            # The closing bracket of the body proves the end of a text, never that of a call.
            self.turn.finish = "stop"
        self._close()

    def _close(self) -> None:
        self._pass_on(self._assembler.close())
        if not self.turn.confirmed:
            raise self._cut("it ended without a finish reason")

    def _finish_or(self, error: errors.ProviderError, cause: Exception) -> None:
        """Let a turn stand whose end was confirmed before the connection broke."""
        if not self.turn.confirmed:
            self._pass_on(self._assembler.close())
            raise error from cause
        self._close()

    def _cut(self, how: str) -> errors.ProviderStreamCut:
        return errors.ProviderStreamCut(f"the answer of {self._name} was cut: {how}")

    def _during(self) -> str:
        return " in the middle of its answer" if self.turn.texts else ""


def encode(payload: dict[str, Any]) -> bytes:
    """Return the payload as bytes, whatever its texts hold."""
    try:
        return orjson.dumps(payload)
    except TypeError:
        return json.dumps(clean_value(payload), ensure_ascii=False).encode()


def _decoded(data: bytes) -> list[Any]:
    """Return the chunks of one event: usually one, several where blank lines were left out."""
    try:
        return [_loads(data)]
    except ValueError:
        if b"\n" not in data:
            raise
        lines = [line for line in data.split(b"\n") if line.strip() not in (b"", b"[DONE]")]
        return [_loads(line) for line in lines]


def _loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Half surrogate pairs and invalid UTF-8 are refused by the fast parser (L25).
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error


def _why(error: BaseException) -> str:
    return faults.quote(str(error) or type(error).__name__)
