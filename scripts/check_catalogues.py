"""Every text for people is there in Chinese and in English.

Catalogues are JSON files named `zh-CN.json` and `en.json` side by side; pages carry both
languages, each marked with its `lang`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

LANGUAGES: Final = ("zh-CN", "en")


def problems(root: Path) -> list[str]:
    """Return one sentence for each text or page below `root` that lacks a language."""
    return [*_catalogues(root), *_pages(root)]


def speaks_both(page: str) -> bool:
    """Tell whether an HTML page has parts marked with each language."""
    return all(re.search(rf"lang=[\"']{language}[\"']", page) for language in LANGUAGES)


# Helpers ----------------------------------------------------------------------------------


def _catalogues(root: Path) -> Iterator[str]:
    folders = {path.parent for name in LANGUAGES for path in root.rglob(f"{name}.json")}
    for folder in sorted(folders - {f for f in folders if "node_modules" in f.parts}):
        texts = {name: _texts(folder / f"{name}.json") for name in LANGUAGES}
        for name, other in (LANGUAGES, LANGUAGES[::-1]):
            for key in sorted(texts[other].keys() - texts[name].keys()):
                yield f"{folder.name}/{name}.json lacks {key}"
            for key in sorted(key for key, text in texts[name].items() if not text.strip()):
                yield f"{folder.name}/{name}.json has an empty {key}"


def _texts(path: Path) -> dict[str, str]:
    """Return the texts of a catalogue under dotted keys; a missing file has none."""
    return dict(_flat(json.loads(path.read_text(encoding="utf-8")))) if path.exists() else {}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, str(value)


def _pages(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.html")):
        if "node_modules" in path.parts or '<div id="app">' in (text := path.read_text("utf-8")):
            continue  # an application's shell holds no text of its own
        if not speaks_both(text):
            yield f"{path.name} is not in both languages"
