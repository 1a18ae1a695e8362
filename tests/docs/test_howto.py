"""The guide, followed to the letter: a copy of the checkout, its commands, its files, a real server."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT, files
from tests.support.postmaster import stop_left_behind
from tests.support.process import READY, START_SECONDS
from tests.support.snippets import Block, blocks_of
from tests.support.terminal import Terminal, put_commands
from tests.support.waiting import wait_until

GUIDE = ROOT / "docs" / "howto" / "extension.md"
COMMANDS = {
    "graphwright": f"{sys.executable} -m main",
    "pytest": f"{sys.executable} -m pytest",
    "python": sys.executable,
    "ruff": f"{sys.executable} -m ruff",
    "lint-imports": f"{sys.executable} -c "
    "'from importlinter.cli import lint_imports_command as it; it()'",
}

CHECKS = {
    "format": "",
    "lint": "",
    "imports": "Contracts: ",
    "house": "house: ",
}
"""Of `make check`, with what each says when it has done its work."""


class Newcomer:
    """Somebody with a fresh clone and two terminals, who does what the guide says."""

    def __init__(self, home: Path) -> None:
        self.home, self.clone = home, home / "graphwright"
        self._server: subprocess.Popen[bytes] | None = None
        self._log = home / "first-terminal.log"
        self._log.touch()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment = {
            "PATH": os.defpath,
            "HOME": str(home),
            "PORT": str(port),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._second = Terminal(self.clone, environment)

    @property
    def said(self) -> str:
        """What the second terminal said last."""
        return self._second.said

    def clone_it(self) -> None:
        """Copy the project's files; what `make setup` installs is that of this very run."""
        for path in files():
            target = self.clone / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        put_commands(self.clone, COMMANDS)
        for ready in (".ready-run", ".ready-dev"):
            (self.clone / ".venv" / ready).touch()

    def do(self, block: Block) -> None:
        """Do what a block says."""
        if block.is_of_the_checkout:
            (self.clone / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "bash" and block.code.startswith("make run"):
            self._start(block.code)
        elif block.language == "bash":
            self.run(block.code)
        elif block.language == "text":
            self._second.expect(block.code)

    def leave(self) -> None:
        """End the server as Ctrl+C does."""
        if self._server is not None and self._server.poll() is None:
            os.killpg(self._server.pid, signal.SIGINT)
            try:
                self._server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._server.pid, signal.SIGKILL)
                raise

    def run(self, code: str) -> None:
        """Run commands in the second terminal; none may fail."""
        try:
            self._second.run(code)
        except AssertionError:
            print(self._log.read_text())
            raise

    def _start(self, code: str) -> None:
        self.leave()
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                ["sh", "-e", "-c", code],
                cwd=self.clone,
                env=self._second.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        wait_until(self._is_ready, "the server is ready", START_SECONDS)

    def _is_ready(self) -> bool:
        assert self._server is not None
        said = self._log.read_text()
        assert self._server.poll() is None, said
        return READY.search(said) is not None


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    # Where the account that runs the database can reach it when we are root.
    home = Path(tempfile.mkdtemp(prefix="gw-howto-"))
    home.chmod(0o711)
    someone = Newcomer(home)
    try:
        yield someone
    finally:
        someone.leave()
        stop_left_behind(someone.clone / "data")
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.req("EXT-12", "EXT-13", "EXT-01")
@pytest.mark.timeout(300)
def test_the_guide_followed_literally_leads_to_an_extension_that_answers(
    newcomer: Newcomer,
) -> None:
    newcomer.clone_it()
    done: list[str] = []
    for block in blocks_of(GUIDE):
        newcomer.do(block)
        done.append(block.code)
    assert sum(code.startswith("make run") for code in done) == 3
    assert (newcomer.clone / "extensions" / "airdesk" / "extension.py").is_file()
    assert (newcomer.home / "my-extensions" / "birddesk" / "extension.py").is_file()


@pytest.mark.req("EXT-01", "EXT-12")
@pytest.mark.timeout(300)
def test_extensions_of_ones_own_do_not_disturb_the_checks_of_the_project(
    newcomer: Newcomer,
) -> None:
    """A skeleton, and one whose author has other habits, lie in `extensions/` like ours."""
    newcomer.clone_it()
    newcomer.run("git init --quiet")  # ruff asks git what is ignored
    newcomer.run(".venv/bin/graphwright extension new airdesk")
    sloppy = newcomer.clone / "extensions" / "sloppy"
    sloppy.mkdir()
    code = "import os, json\ndef setup(registry):\n  x=1 ; print( os.environ.get('A'))\n"
    (sloppy / "extension.py").write_text(code + "  return untyped(x)\n" + "#\n" * 500)
    newcomer.run("git status --porcelain --untracked-files=all extensions")
    assert "airdesk" not in newcomer.said
    assert "sloppy" not in newcomer.said
    assert "extensions/core/extension.py" in newcomer.said
    # Whether our own files are in order is not asked here: what is found must be in them alone.
    for check, said in CHECKS.items():
        newcomer.run(f"make check-{check} || :")
        assert said in newcomer.said
        assert "sloppy" not in newcomer.said
        assert "airdesk" not in newcomer.said
