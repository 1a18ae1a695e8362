"""A terminal in which somebody follows a guide: its commands and what they print."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Terminal:
    """One terminal; a command that fails, or a text that was not printed, is told by the test."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Open it in a folder."""
        self.folder = folder
        self.environment = dict(environment)
        self.said = ""
        """What the last commands printed."""

    def run(self, code: str, seconds: float = 120.0) -> None:
        """Run commands; none may fail."""
        ran = subprocess.run(
            ["sh", "-e", "-c", code],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        self.said = ran.stdout
        assert ran.returncode == 0, f"{code}\n{self.said}"

    def expect(self, text: str) -> None:
        """Find each line of a text in what was printed; `…` stands for anything."""
        for line in filter(None, text.splitlines()):
            pattern = r"\s+".join(map(re.escape, line.split())).replace("…", ".*")
            assert re.search(pattern, self.said), f"not said: {line}\n{self.said}"


def put_commands(folder: Path, commands: Mapping[str, str]) -> None:
    """Write a `.venv/bin` of commands, each a line for `sh` that takes their arguments."""
    place = folder / ".venv" / "bin"
    place.mkdir(parents=True)
    for name, line in commands.items():
        (place / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (place / name).chmod(0o755)
