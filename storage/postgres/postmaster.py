"""PostgreSQL's server process of one cluster: is it there, is it ready, start it, stop it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.clock import Clock
from core.errors import Unavailable
from storage.postgres.account import Account
from storage.postgres.home import ADMIN, Home, write_configuration

Told = tuple[Clock, Callable[[str], None]]
"""What waits, and who is told of long waits."""

PAUSE: Final = 0.02
"""Seconds between two looks at a server that starts or stops."""

TELL_AFTER: Final = 2.0
"""Seconds after which a wait is told to the user for the first time; then every `TELL_EVERY`."""
TELL_EVERY: Final = 15.0

ANSWER_PATIENCE: Final = 60.0
"""Seconds after which a server that calls itself ready and refuses us is a failure."""

STOP_PATIENCE: Final = 60.0
"""Seconds that the last process waits for the server's end; it ends without us, too."""

GONE_AFTER: Final = 1.0
"""Seconds without a process after which the server counts as gone: `pg_ctl` takes a moment."""

LEFTOVER: Final = "pre-existing shared memory block"
"""What the server says while processes of a killed one are still ending."""

LOG_LIMIT: Final = 4_000_000
"""Bytes of log above which a start begins a new one."""


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What the server says of itself in `postmaster.pid`."""

    pid: int
    status: str
    """`starting`, `ready`, `stopping`, or empty while it is too early."""


def look(home: Home) -> Postmaster | None:
    """Return the running server of this cluster, or none; a file without its process is none."""
    try:
        lines = (home.cluster / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    if not _is_ours(pid, home):
        return None
    return Postmaster(pid, lines[7].strip() if len(lines) > 7 else "")


def _is_ours(pid: int, home: Home) -> bool:
    """Tell whether this process is the cluster's server and not another one with its old id.

    A server works inside its data folder, which no stranger can enter.
    """
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == home.cluster.resolve()
    except FileNotFoundError:
        if Path("/proc/self").exists():
            return False
    except OSError:
        return False
    listed = subprocess.run(  # noqa: S603 - a fixed program of systems without /proc
        ["/bin/ps", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return "postgres" in listed.stdout


def launch(programs: Path, home: Home, user: Account) -> None:
    """Begin to start the server, without waiting for it. It outlives us and our terminal.

    Raises:
        Unavailable: the operating system did not start it.
    """
    # The server is gone, but its process id may belong to a stranger now, or to its own remains
    # that nobody has collected: either way PostgreSQL would believe these files and not start.
    for stale in (home.cluster / "postmaster.pid", home.socket, Path(f"{home.socket}.lock")):
        stale.unlink(missing_ok=True)
    # Relative to the home: pg_ctl passes these through a shell.
    options = "-c config_file=postgresql.conf -c hba_file=pg_hba.conf"
    where = ["-D", "cluster", "-l", "cluster/server.log", "-o", options]
    began = user.run([programs / "pg_ctl", "start", "--silent", "--no-wait", *where], cwd=home.path)
    if began.returncode != 0:
        raise Unavailable(f"PostgreSQL could not be started: {began.stdout.strip()}")


class Start:
    """One start of a cluster, from finding or launching its server to the first connection."""

    def __init__(self, programs: Path, home: Home, user: Account, told: Told) -> None:
        self._programs, self._home, self._user = programs, home, user
        self._clock, self._say = told
        self._teller = _Teller(*told)
        self._log_at = 0
        self._launched = False

    async def run(self) -> None:
        """Wait until the server takes connections, however long recovery from a crash takes.

        Raises:
            Unavailable: the server ended; its last words are in the message.
        """
        if look(self._home) is None:
            await self._launch()
        alive_at = self._clock.monotonic()
        ready_at: float | None = None
        while True:
            server = look(self._home)
            now = self._clock.monotonic()
            if server is None:
                ready_at = None
                if now - alive_at > GONE_AFTER:
                    await self._again()
                    alive_at = self._clock.monotonic()
            else:
                alive_at = now
                if server.status == "ready":
                    ready_at = now if ready_at is None else ready_at
                    if await _answers(self._home, give_up=now - ready_at > ANSWER_PATIENCE):
                        return
                self._teller.tell("PostgreSQL is starting; after a crash it repairs its data.")
            await self._clock.sleep(PAUSE)

    async def _launch(self) -> None:
        self._launched = True
        self._log_at = await asyncio.to_thread(_fresh_log, self._home)
        await asyncio.to_thread(write_configuration, self._home, self._user)
        await asyncio.to_thread(launch, self._programs, self._home, self._user)

    async def _again(self) -> None:
        """Launch once more where the server ended for a reason that passes."""
        words = last_words(self._home, self._log_at)
        if self._launched and LEFTOVER not in words:
            raise Unavailable(f"PostgreSQL ended while it was starting. It said: {words}")
        self._teller.tell("Waiting for processes of a killed PostgreSQL to end.")
        await self._launch()


def _fresh_log(home: Home) -> int:
    """Return where this start's part of the log begins; a long log is begun anew."""
    try:
        size = home.log.stat().st_size
    except FileNotFoundError:
        return 0
    if size <= LOG_LIMIT:
        return size
    home.log.unlink()
    return 0


class _Teller:
    """Tells the user of a long wait, now and then."""

    def __init__(self, clock: Clock, say: Callable[[str], None]) -> None:
        self._clock, self._say = clock, say
        self._next = clock.monotonic() + TELL_AFTER

    def tell(self, text: str) -> None:
        if self._clock.monotonic() >= self._next:
            self._say(text)
            self._next = self._clock.monotonic() + TELL_EVERY


async def _answers(home: Home, *, give_up: bool) -> bool:
    import psycopg

    try:
        connection = await psycopg.AsyncConnection.connect(
            home.url(role=ADMIN, database="postgres"), connect_timeout=5
        )
    except psycopg.OperationalError as error:
        if give_up:
            raise Unavailable(f"PostgreSQL runs but refuses us: {error}") from error
        return False
    await connection.close()
    return True


def last_words(home: Home, since: int) -> str:
    """Return the end of what the server wrote to its log behind that place."""
    with suppress(OSError):
        return home.log.read_bytes()[since:].decode(errors="replace")[-2000:].strip()
    return "(nothing)"


async def stop(home: Home, clock: Clock, say: Callable[[str], None]) -> None:
    """End the server: connections are cut, everything is on disk. Waits a bounded time."""
    server = look(home)
    if server is None:
        return
    with suppress(ProcessLookupError):
        os.kill(server.pid, signal.SIGINT)  # PostgreSQL's «fast shutdown»
    began = clock.monotonic()
    teller = _Teller(clock, say)
    while look(home) is not None and clock.monotonic() - began < STOP_PATIENCE:
        teller.tell("PostgreSQL is stopping.")
        await clock.sleep(PAUSE)


def init(programs: Path, home: Home, user: Account) -> None:
    """Make a new cluster in one step: it is there whole, or not at all.

    Raises:
        Unavailable: `initdb` failed.
    """
    draft = home.path / "cluster.new"
    if draft.exists():  # a start that was killed in the middle
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    user.give(draft)
    handed = home.path / "admin_password.init"
    handed.unlink(missing_ok=True)
    with os.fdopen(os.open(handed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write((home.path / "admin_password").read_text())
    user.give(handed)
    access = ["-U", ADMIN, "--pwfile", handed.name, "--auth=scram-sha-256"]
    # Sorting and case folding come with PostgreSQL, so that no system's upgrade changes them.
    language = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    try:
        made = user.run(
            [
                programs / "initdb",
                "-D",
                "cluster.new",
                *access,
                *language,
                "--encoding=UTF8",
                "--no-instructions",
            ],
            cwd=home.path,
        )
    finally:
        handed.unlink(missing_ok=True)
    if made.returncode != 0:
        raise Unavailable(f"PostgreSQL's data folder could not be made: {made.stdout.strip()}")
    draft.rename(home.cluster)
