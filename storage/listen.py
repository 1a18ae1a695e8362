"""Hears notifications of PostgreSQL, for ever: a lost connection is made anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import sql

from core.clock import Clock, SystemClock

PROBE_SECONDS: Final = 20.0
"""A silent connection is tried out this often: a dead one never says so by itself."""

LONGEST_WAIT: Final = 5.0
"""Seconds between two tries to connect, at most."""

log = logging.getLogger("graphwright.storage")


class Listener:
    """A connection that listens. Close it with `aclose`."""

    def __init__(
        self,
        url: str,
        channels: Sequence[str],
        on_notify: Callable[[str, str], None],
        on_reconnect: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._url, self._channels = url, tuple(channels)
        self._on_notify, self._on_reconnect = on_notify, on_reconnect
        self._clock = clock
        self._listening = asyncio.Event()
        self._task = asyncio.create_task(self._for_ever(), name="listen")

    @property
    def connected(self) -> bool:
        """Whether notifications arrive at present."""
        return self._listening.is_set()

    async def until_listening(self) -> None:
        """Wait until notifications arrive."""
        await self._listening.wait()

    async def aclose(self) -> None:
        """Stop listening."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _for_ever(self) -> None:
        wait = 0.05
        first = True
        while True:
            try:
                async with await self._connect() as connection:
                    if not first:
                        self._on_reconnect()
                    first = False
                    self._listening.set()
                    wait = 0.05
                    await self._hear(connection)
            except (psycopg.Error, OSError) as error:
                log.warning("notifications are cut off: %s", type(error).__name__)
            finally:
                self._listening.clear()
            await self._clock.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=10, application_name="graphwright listen"
        )
        try:
            for channel in self._channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _hear(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            async for notification in connection.notifies(timeout=PROBE_SECONDS):
                self._on_notify(notification.channel, notification.payload)
            async with asyncio.timeout(PROBE_SECONDS):
                await connection.execute("SELECT 1")


async def listen(
    url: str,
    channels: Sequence[str],
    on_notify: Callable[[str, str], None],
    on_reconnect: Callable[[], None],
    *,
    clock: Clock | None = None,
) -> Listener:
    """Begin to listen, and return once notifications arrive.

    Args:
        url: plain `postgresql://` address.
        channels: names of channels.
        on_notify: called with channel and payload on the event loop; must be quick.
        on_reconnect: called when listening again after a gap, in which notifications were lost.
        clock: what waits between two tries; the machine's own where missing.

    Returns:
        The listener, which reconnects for ever until `aclose`.
    """
    listener = Listener(url, channels, on_notify, on_reconnect, clock or SystemClock())
    try:
        await listener.until_listening()
    except BaseException:
        await listener.aclose()
        raise
    return listener
