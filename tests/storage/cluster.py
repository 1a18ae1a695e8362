"""Processes that use an embedded cluster, and looks at it from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from storage.postgres import postmaster
from storage.postgres.home import Home, find_home

PROJECT = Path(__file__).parents[2]


class Member:
    """A process of its own that uses the cluster."""

    def __init__(self, *args: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.cluster_member", *map(str, args)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.gone = False
        self.url = ""

    def until(self, word: str) -> str:
        """Read on until a line begins with that word, and return the rest of it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            first, _, rest = line.rstrip("\n").partition(" ")
            if first == word:
                return rest
            self.said.append(line)
        raise AssertionError(f"it ended without saying {word}: {self.said}")

    def ready(self) -> Member:
        self.url, self.seconds = self.until("ready").split(" ")
        return self

    def leave(self) -> bool:
        """Let it leave in order, and return whether it was the last one."""
        if self.gone:
            return False
        self.gone = True
        output, _ = self.process.communicate("\n", timeout=50)
        return output.partition("left ")[2].strip() == "True"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def home_of(data: Path) -> Home:
    home = find_home(data)
    assert home is not None
    return home


def server_of(data: Path) -> int | None:
    found = postmaster.look(home_of(data))
    return found.pid if found else None


def processes_of(pid: int) -> list[int]:
    """Return the ids of a server and of all its processes."""
    children = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            children.append(int(folder.name))
    return [pid, *children]


def rights_above(path: Path) -> dict[str, tuple[int, int, int]]:
    """Return mode and owner of every folder above a path."""
    return {
        str(folder): (folder.stat().st_mode, folder.stat().st_uid, folder.stat().st_gid)
        for folder in path.parents
    }
