"""The real command as a process: started in a folder of its own, waited for, ended by its id."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

COMMAND = (sys.executable, "-m", "main")
"""The same as `graphwright`, whatever folder that was installed in."""
ROOT = Path(__file__).parents[2]
READY = re.compile(r"^ready (http://\S+)$", re.MULTILINE)
LINK = re.compile(r"http://\S+/login\?token=\S+")
START_SECONDS = 40.0
"""A first start makes the database's cluster, on a machine that may be busy."""


def environment(**settings: str) -> dict[str, str]:
    """Return what a command sees: nothing of the developer's own settings, no proxy."""
    kept = {"PATH": os.defpath, "HOME": str(Path.home())}
    return {**kept, "GW_ENV_PRIORITY": "none", "PYTHONUNBUFFERED": "1", **settings}


@dataclass
class ServerProcess:
    """One `graphwright serve`."""

    process: subprocess.Popen[str]
    data_dir: Path
    out: list[str] = field(default_factory=list)
    """Lines of standard output."""
    log: list[str] = field(default_factory=list)
    """Lines of standard error."""
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _readers: list[threading.Thread] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it serves."""
        found = READY.search("\n".join(self.out))
        assert found, self.everything
        return found[1]

    @property
    def link(self) -> str:
        """The sign-in link it printed."""
        found = LINK.search("\n".join(self.out))
        assert found, self.everything
        return found[0]

    @property
    def everything(self) -> str:
        """All it said, for messages of failed tests."""
        return "\n".join([*self.out, *self.log])

    def wait_ready(self, seconds: float = START_SECONDS) -> ServerProcess:
        """Wait until the line `ready …` has come."""

        def settled() -> bool:
            return bool(READY.search("\n".join(self.out))) or self.process.poll() is not None

        until = time.monotonic() + seconds
        with self._changed:
            while not settled() and time.monotonic() < until:
                self._changed.wait(0.2)
        assert READY.search("\n".join(self.out)), f"not ready:\n{self.everything}"
        return self

    def signal(self, number: int) -> None:
        """Send a signal to this one process."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """Ask it to end and return its exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait until it has ended and return its exit code."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(5)
        return code

    def read(self) -> ServerProcess:
        """Collect what it says, in threads, so that it never waits for us."""
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.log)):
            assert stream is not None
            reader = threading.Thread(target=self._collect, args=(stream, lines), daemon=True)
            reader.start()
            self._readers.append(reader)
        return self

    def _collect(self, stream: IO[str], lines: list[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def start_server(data_dir: Path, *options: str, **settings: str) -> ServerProcess:
    """Start `graphwright serve` on a free port; does not wait for it."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--data-dir", str(data_dir), *options],
        cwd=ROOT,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return ServerProcess(process, data_dir).read()


@contextmanager
def server(data_dir: Path, *options: str, **settings: str) -> Iterator[ServerProcess]:
    """Give a server that is ready; it is stopped at the end, killed if it will not go."""
    started = start_server(data_dir, *options, **settings)
    try:
        yield started.wait_ready()
    finally:
        end(started)


def end(started: ServerProcess) -> None:
    """Stop a server that may have been stopped already."""
    try:
        started.stop()
    except subprocess.TimeoutExpired:
        started.kill()
        raise


def command(
    *arguments: str, seconds: float = 60.0, settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(**(settings or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
