"""Reads the summary and the `Args:` of a Google style docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Example|Examples|Note|Notes):\s*$"
)
_ENTRY = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def read(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the arguments' descriptions by name."""
    lines = (inspect.getdoc(function) or "").splitlines()
    summary: list[str] = []
    section = ""
    arguments: list[str] = []
    for line in lines:
        found = _SECTION.match(line)
        if found:
            section = found.group(1)
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            arguments.append(line)
    return "\n".join(summary).strip(), _entries(arguments)


def _entries(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    indent: int | None = None
    name = ""
    for line in lines:
        entry = _ENTRY.match(line)
        if entry and (indent is None or len(entry.group(1)) <= indent):
            indent = len(entry.group(1))
            name = entry.group(2)
            found[name] = [entry.group(3)]
        elif name and line.strip():
            found[name].append(line.strip())
    return {key: " ".join(filter(None, parts)) for key, parts in found.items()}
