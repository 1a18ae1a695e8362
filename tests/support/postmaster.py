"""The embedded cluster of a data folder as processes: killed by id, never by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from storage.postgres.home import find_home
from tests.support.waiting import wait_until


def postmaster_pid(data_dir: Path) -> int | None:
    """Return the process id of the folder's PostgreSQL, if it has one that lives."""
    home = find_home(data_dir.resolve())
    if home is None:
        return None
    try:
        pid = int((home.cluster / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError):
        return None
    return pid


def kill_postmaster(data_dir: Path) -> None:
    """End PostgreSQL as a power cut would: its children notice and end as well."""
    pid = postmaster_pid(data_dir)
    assert pid is not None, "PostgreSQL does not run"
    os.kill(pid, signal.SIGKILL)
    _wait_gone(pid)


def stop_left_behind(data_dir: Path) -> None:
    """Stop a cluster whose last user was killed."""
    pid = postmaster_pid(data_dir)
    if pid is not None:
        os.kill(pid, signal.SIGINT)  # PostgreSQL's fast shutdown
        _wait_gone(pid)


def _wait_gone(pid: int, seconds: float = 15.0) -> None:
    wait_until(lambda: not _lives(pid), f"process {pid} ends", seconds)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
