"""How a process is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
INTERRUPTED: Final = 130
"""Exit code of a process that was told twice to end."""


@asynccontextmanager
async def told_to_end() -> AsyncIterator[asyncio.Event]:
    """Give an event that the first signal sets; the second one ends the process at once."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()

    def told() -> None:
        if end.is_set():
            # Runs that were still going are found and continued by the next start.
            os._exit(INTERRUPTED)
        end.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, told)
    try:
        yield end
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
