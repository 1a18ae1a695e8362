"""The HTTP server inside our own loop: starts, proves that it serves, ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from core.clock import Clock
from core.errors import ConfigError, Unavailable
from server.listen import fault_of, url_of

_START_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.01
_LAST_BYTES_SECONDS: Final = 2
"""How long open connections may take to get their last bytes once we end."""


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, which would end streams before runs are drained."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, taken: socket.socket, clock: Clock) -> AsyncIterator[None]:
    """Serve the application on that socket for as long as the block lasts.

    Raises:
        ConfigError: another program took the port meanwhile.
        Unavailable: it does not answer.
    """
    config = uvicorn.Config(
        app,
        access_log=False,  # the application writes its own line, without queries
        log_config=None,
        log_level="warning",  # our own lines say when it begins and ends
        lifespan="off",  # everything is opened and closed around us
        server_header=False,
        timeout_graceful_shutdown=_LAST_BYTES_SECONDS,
        ws="none",
        # Addresses of proxies are believed only where a later setting names the proxies.
        proxy_headers=False,
    )
    server = _Server(config)
    work = asyncio.create_task(server.serve(sockets=[taken]), name="http")
    try:
        await _started(server, work, clock, taken)
        yield
    finally:
        # Tells open event streams, too, that the end has come.
        server.handle_exit(signal.SIGTERM, None)
        with contextlib.suppress(OSError):
            await work


async def _started(
    server: uvicorn.Server, work: asyncio.Task[None], clock: Clock, taken: socket.socket
) -> None:
    host, port = taken.getsockname()[:2]
    until = clock.monotonic() + _START_SECONDS
    while not server.started:
        if work.done():
            _raise_for(work.exception(), str(host), int(port))
        if clock.monotonic() > until:
            raise Unavailable(f"The HTTP server did not start within {_START_SECONDS:.0f} s.")
        await clock.sleep(_POLL_SECONDS)
    async with asyncio.timeout(_START_SECONDS):
        await _check_answer(str(host), int(port), url_of(taken))


def _raise_for(error: BaseException | None, host: str, port: int) -> None:
    if isinstance(error, OSError):
        raise ConfigError([fault_of(error, host, port)]) from error
    raise Unavailable("The HTTP server ended while it started.") from error


async def _check_answer(host: str, port: int, url: str) -> None:
    """Ask over the wire, as any client would, whether somebody answers.

    Raises:
        Unavailable: the answer is not the expected one.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        authority = url.removeprefix("http://")
        writer.write(
            f"GET /health/live HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        first = await reader.readline()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if b" 200 " not in first:
        raise Unavailable(f"The HTTP server answers {first.decode('latin-1').strip()!r}.")
