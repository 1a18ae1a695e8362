"""Who uses an embedded cluster, kept by the kernel: a lock that dies with its process.

Two lock files lie in the cluster's home. `lock` is held for the moments in which the cluster
is started or stopped. `members` is held, shared, by each process as long as it uses the cluster;
who gets it alone is the last one. A process that was killed leaves nothing behind to clean up.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from core.clock import Clock

PAUSE: Final = 0.02
"""Seconds between two looks at a lock that somebody else holds."""

PATIENCE: Final = 3.0
"""Seconds after which a wait is told to the user."""


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, *, shared: bool) -> bool:
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@asynccontextmanager
async def exclusively(home: Path, clock: Clock, say: Callable[[str], None]) -> AsyncGenerator[None]:
    """Hold the start-and-stop lock of a cluster."""
    descriptor = _open(home / "lock")
    try:
        began = clock.monotonic()
        told = False
        while not _try(descriptor, shared=False):
            if not told and clock.monotonic() - began > PATIENCE:
                say("Another process is starting or stopping PostgreSQL; waiting for it.")
                told = True
            await clock.sleep(PAUSE)
        yield
    finally:
        os.close(descriptor)


class Membership:
    """This object's place among the users of a cluster."""

    def __init__(self, home: Path) -> None:
        self._descriptor: int | None = _open(home / "members")

    async def join(self, clock: Clock) -> None:
        """Become one of the users. Call it while holding `exclusively`."""
        assert self._descriptor is not None
        while not _try(self._descriptor, shared=True):
            await clock.sleep(PAUSE)

    def leave(self) -> bool:
        """Stop being a user, and tell whether this was the last one. Hold `exclusively`."""
        if self._descriptor is None:
            return False
        # Asking for the lock alone turns our own shared one into it, or fails and changes nothing.
        last = _try(self._descriptor, shared=False)
        os.close(self._descriptor)
        self._descriptor = None
        return last
