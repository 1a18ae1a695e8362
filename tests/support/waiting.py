"""Waiting for what happens in other processes: only the real clock moves those."""

from __future__ import annotations

import time
from collections.abc import Callable


def pause(seconds: float) -> None:
    """Let other processes go on for a while."""
    time.sleep(seconds)  # noqa: TID251 - the one place where tests wait by the real clock


def wait_until(fact: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for something that happens in another process.

    Raises:
        AssertionError: it does not happen in time; says `what`.
    """
    until = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < until, f"not within {seconds:.0f} s: {what}"
        pause(0.05)
