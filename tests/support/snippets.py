"""The code blocks of a document, in order, each with the section it stands in.

A block may name its file behind its language: three backticks, `python extension.py`. A path that
begins with `extensions/` is one in the checkout; any other lies in the extension that the section
shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One code block."""

    language: str
    file: str
    """What it says it is the whole of; empty where it says nothing."""
    code: str
    section: str
    before: str
    """The document up to here."""

    @property
    def is_of_the_checkout(self) -> bool:
        return self.file.startswith("extensions/")


@dataclass
class Example:
    """An extension that a section shows, with all of its files."""

    section: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def tests(self) -> list[str]:
        """The names of its modules with tests."""
        return [Path(file).stem for file in self.files if file.startswith("test_")]


def blocks_of(document: Path) -> list[Block]:
    """Return every block of a document."""
    text = document.read_text(encoding="utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        language, _, file = match["info"].partition(" ")
        before = text[: match.start()]
        headings = _HEADING.findall(before)
        section = headings[-1] if headings else "the beginning"
        found.append(Block(language, file.strip(), match["code"], section, before))
    return found


def examples_in(document: Path) -> list[Example]:
    """Return the extensions that a document shows; code that names no file is a whole one."""
    found: list[Example] = []
    for block in blocks_of(document):
        if block.is_of_the_checkout or not (block.file or block.language == "python"):
            continue
        file = block.file or "extension.py"
        last = found[-1] if found else None
        if last is None or last.section != block.section or file in last.files:
            found.append(Example(block.section))
        found[-1].files[file] = block.code
    return found
