"""What surrounds every request: trace id, one log line, security headers, size, host, last resort.

Plain ASGI: a stream passes through without being gathered, and a client that leaves is noticed.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import response_of
from core.clock import Clock
from core.errors import HostRefused, ServerFault, TooLarge
from core.ids import new_id
from core.log import bind, get_logger

log = get_logger("api.access")

TRACE_HEADER: Final = "X-Trace-Id"
_TRACE_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")

CLIENT_GONE: Final = 499
"""Logged where the client left before there was an answer; nothing is sent."""

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

SECURITY_HEADERS: Final = {
    # The workbench is built files of our own: nothing from elsewhere, nothing inline.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), payment=(), usb=()",
}


class Edge:
    """Outermost: names the request, logs it once it is over, answers for faults of ours."""

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trace_id = _trace_id(Headers(scope=scope))
        scope.setdefault("state", {})["trace_id"] = trace_id
        answer = _Answer(send, trace_id, scope["path"])
        began = self._clock.monotonic()
        with bind(trace_id=trace_id):
            try:
                await self._app(scope, receive, answer.send)
            except ClientDisconnect:
                answer.status = answer.status or CLIENT_GONE
            except Exception as error:  # boundary: a fault of ours must not end the process
                await self._last_resort(error, answer, scope, receive)
            finally:
                _log_request(scope, answer, self._clock.monotonic() - began)

    async def _last_resort(
        self, error: Exception, answer: _Answer, scope: Scope, receive: Receive
    ) -> None:
        """Answer with the one shape, or cut the connection where an answer has begun already."""
        log.error("fault while answering", exc_info=error)
        if answer.status:
            raise error
        fault = ServerFault(details={"trace_id": answer.trace_id})
        await response_of(fault)(scope, receive, answer.send)


class HostGuard:
    """Lets only requests for this machine's own names in: the wall against DNS rebinding.

    A page of another site can make its name point at 127.0.0.1; the browser then takes us for
    that site. The `Host` header still has the foreign name.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._names = LOOPBACK_NAMES | {host.strip("[]").lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] in ("http", "websocket"):
            host = Headers(scope=scope).get("host", "")
            if _host_name(host) not in self._names:
                await response_of(HostRefused())(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuses bodies that are too large, by their stated length or once so much has come."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = TooLarge(f"A request may have at most {self._limit} bytes.")
        if _stated_length(Headers(scope=scope)) > self._limit:
            await response_of(refusal)(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise refusal
            return message

        await self._app(scope, counted, send)


# Helpers ----------------------------------------------------------------------------------


class _Answer:
    """Watches what is sent and adds the headers that every answer has."""

    def __init__(self, send: Send, trace_id: str, path: str) -> None:
        self._send = send
        self._private = path.startswith(("/api/", "/auth/", "/login"))
        self.trace_id = trace_id
        self.status = 0
        self.size = 0
        self.ids: dict[str, str] = {}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[TRACE_HEADER] = self.trace_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if self._private:
                headers.setdefault("Cache-Control", "no-store")
            for name in ("session_id", "run_id"):
                if value := headers.get(f"x-{name.replace('_', '-')}"):
                    self.ids[name] = value
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
        await self._send(message)


def _trace_id(headers: Headers) -> str:
    given = headers.get(TRACE_HEADER, "")
    return given if _TRACE_ID.fullmatch(given) else new_id()


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _stated_length(headers: Headers) -> int:
    stated = headers.get("content-length", "")
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 20 else 0


def _log_request(scope: Scope, answer: _Answer, seconds: float) -> None:
    """Write the one line. The query and the bodies are never in it."""
    facts = {
        "method": scope["method"],
        "path": scope["path"],
        "status": answer.status or CLIENT_GONE,
        "ms": round(seconds * 1000, 1),
        "bytes": answer.size,
    }
    quiet = scope["path"].startswith(("/health", "/static/"))
    with bind(**answer.ids):
        (log.debug if quiet else log.info)("request", extra={"kv": facts})
