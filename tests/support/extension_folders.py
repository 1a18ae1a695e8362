"""Folders of extensions that are forgotten after the test."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import extensions as door


@contextmanager
def forgotten(*prefixes: str) -> Generator[None]:
    """Take back whatever is imported of extensions inside, and where they were looked for.

    Args:
        prefixes: of further modules to forget.
    """
    known, paths, search = set(sys.modules), list(door.__path__), list(sys.path)
    try:
        yield
    finally:
        door.__path__[:], sys.path[:] = paths, search
        for name in set(sys.modules) - known:
            if name.startswith("extensions."):
                vars(door).pop(name.split(".")[1], None)
            if name.startswith(("extensions.", *prefixes)):
                del sys.modules[name]


def add(folder: Path, name: str, code: str) -> Path:
    """Put an extension into a folder and return its own."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "extension.py").write_text(code, encoding="utf-8")
    return place
