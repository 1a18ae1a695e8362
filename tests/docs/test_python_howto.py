"""The guide to Python, followed block by block: its scripts, its commands, what they print."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.support.snippets import Block, blocks_of
from tests.support.terminal import Terminal, put_commands

GUIDE = ROOT / "docs" / "howto" / "python.md"


class Reader:
    """Somebody who does what the guide says, with the commands of this very checkout."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        interpreter = sys.executable
        put_commands(folder, {"python": interpreter, "graphwright": f"{interpreter} -m main"})
        environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "DATABASE_URL": database_url,
            "GW_DATA_DIR": str(folder / "data"),
            "HITL_TOOLS": "write_file",
        }
        self._terminal = Terminal(folder, environment)

    def do(self, block: Block) -> None:
        match block.language:
            case "python":
                (self.folder / block.file).write_text(block.code, encoding="utf-8")
                self._terminal.run(f".venv/bin/python {block.file}")
            case "bash":
                self._terminal.run(block.code)
            case "text":
                self._terminal.expect(block.code)
            case _:
                raise AssertionError(f"nobody does what a block of {block.language} says")


@pytest.mark.req("BATCH-01", "BATCH-03", "BATCH-04")
@pytest.mark.timeout(180)
def test_the_guide_followed_block_by_block_says_what_it_shows(
    database_url: str, tmp_path: Path
) -> None:
    reader = Reader(tmp_path, database_url)
    blocks = blocks_of(GUIDE)
    for block in blocks:
        reader.do(block)
    assert [block.file for block in blocks if block.language == "python"] == [
        "one.py", "watch.py", "answer.py", "many.py",
    ]  # fmt: skip
    assert len((tmp_path / "squares.jsonl").read_text().splitlines()) == 6
