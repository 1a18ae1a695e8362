"""Servers and workers on one database, and somebody who kills, stops and ends them by a seed."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.support.process import COMMAND, ROOT, environment

STOPPED: Final = (0.3, 4.5)
"""Seconds for which a process is stopped; it counts as dead after two."""

PAUSE: Final = (0.8, 3.0)


class Place:
    """One process after the other in one role."""

    def __init__(self, *arguments: str, settings: dict[str, str], log: Path) -> None:
        self._command = [*COMMAND, *arguments]
        self._settings, self._log = settings, log
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=environment(**self._settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ensure(self) -> None:
        """Start a process where there is none."""
        if self.process.poll() is not None:
            self.process = self._start()

    def signal(self, number: int) -> None:
        """Send a signal to the process that is there."""
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self) -> None:
        """Let it end, or kill it."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Fleet:
    """Two servers and two workers."""

    def __init__(self, data_dir: Path, settings: dict[str, str]) -> None:
        self.urls: list[str] = []
        folder = ("--data-dir", str(data_dir))
        self.places: list[Place] = []
        for number in range(2):
            port = free_port()
            self.urls.append(f"http://127.0.0.1:{port}")
            log = data_dir.parent / f"serve{number}.log"
            arguments = ("serve", "--port", str(port), *folder)
            self.places.append(Place(*arguments, settings=settings, log=log))
        for number in range(2):
            log = data_dir.parent / f"worker{number}.log"
            self.places.append(Place("worker", *folder, settings=settings, log=log))

    def end(self) -> None:
        """End all of them, the workers first."""
        for place in reversed(self.places):
            with suppress(OSError):
                place.end()


class Chaos:
    """Does something to one of them every moment, until told to stop."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._random = fleet, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="chaos")
        self.done: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and leave every process running."""
        self._stop.set()
        self._thread.join()
        for place in self._fleet.places:
            place.signal(signal.SIGCONT)
            place.ensure()

    def _work(self) -> None:
        stopped: dict[int, float] = {}
        while not self._stop.wait(self._random.uniform(*PAUSE)):
            now = time.monotonic()
            for index in [index for index, until in stopped.items() if until <= now]:
                del stopped[index]
                self._fleet.places[index].signal(signal.SIGCONT)
            for index, place in enumerate(self._fleet.places):
                if index not in stopped:
                    place.ensure()
            index = self._random.randrange(len(self._fleet.places))
            if index in stopped:
                continue
            place = self._fleet.places[index]
            action = self._random.choice(["kill", "stop", "stop", "term"])
            self.done.append(f"{action} {index}")
            match action:
                case "kill":
                    place.signal(signal.SIGKILL)
                case "stop":
                    place.signal(signal.SIGSTOP)
                    stopped[index] = now + self._random.uniform(*STOPPED)
                case _:
                    place.signal(signal.SIGTERM)


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
