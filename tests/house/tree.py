"""The files of the project as they lie here, without what is built or kept beside them."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.lint_house import own_extensions

ROOT = Path(__file__).parents[2]
_NOT_SHARED = {".env", ".git"}
"""Files; `.git` is one where this is a work tree of another repository."""
_NOT_OURS = {"data", "build", "node_modules", "__pycache__"}


def folders_at_the_top() -> set[str]:
    """Return the names of the folders that hold the project's own files."""
    return {path.relative_to(ROOT).parts[0] for path in files() if path.parent != ROOT}


def files(*suffixes: str) -> list[Path]:
    """Return the project's files whose names end with one of these, or all of them."""
    found: list[Path] = []
    not_ours = own_extensions(ROOT)
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if _is_ours(name) and Path(folder, name) not in not_ours]
        found += [Path(folder, name) for name in names if name.endswith(suffixes or ("",))]
    return [path for path in sorted(found) if path.is_file() and path.name not in _NOT_SHARED]


def _is_ours(folder: str) -> bool:
    if folder.startswith("."):
        return folder == ".ci"
    return folder not in _NOT_OURS and not folder.endswith(".egg-info")
