"""What lies in a folder, as entries under virtual paths."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from core.errors import FileMissing, TooLarge
from core.ports import FileEntry
from sandbox import folder
from sandbox.names import is_plain
from sandbox.paths import MAX_DEPTH, VirtualPath

MAX_ENTRIES: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Look:
    """How a folder is looked through."""

    recursive: bool
    twins: bool


def entry_of(place: VirtualPath, there: os.stat_result, sha256: str | None = None) -> FileEntry:
    """Return the entry of a file or folder whose status is known."""
    is_folder = stat.S_ISDIR(there.st_mode)
    return FileEntry(
        path=str(place),
        kind="folder" if is_folder else "file",
        size=0 if is_folder else there.st_size,
        modified_at=datetime.fromtimestamp(there.st_mtime, UTC),
        sha256=sha256,
    )


def entries_of(
    project: int, place: VirtualPath, *, recursive: bool, twins: bool = False
) -> list[FileEntry]:
    """Return what lies in a folder, sorted by path.

    Links, devices and names that no client could ask for are left out: they cannot be opened.
    So are files with a second name, unless `twins` are allowed.

    Raises:
        FileMissing: there is no such folder; the roots themselves are always there.
        TooLarge: there are more than `MAX_ENTRIES` of them.
    """
    found: list[FileEntry] = []
    try:
        with folder.opened(project, (place.root, *place.parts)) as start:
            _collect(start, place, found, _Look(recursive, twins))
    except FileMissing:
        if place.parts:
            raise
    return sorted(found, key=lambda entry: entry.path)


def _collect(here: int, place: VirtualPath, found: list[FileEntry], look: _Look) -> None:
    for name in os.listdir(here):
        there = folder.status(here, name) if is_plain(name) else None
        if there is None:
            continue
        child = place.child(name)
        if stat.S_ISREG(there.st_mode) and (look.twins or there.st_nlink == 1):
            found.append(entry_of(child, there))
        elif stat.S_ISDIR(there.st_mode):
            found.append(entry_of(child, there))
            if look.recursive and len(child.parts) < MAX_DEPTH:
                with folder.opened(here, [name]) as below:
                    _collect(below, child, found, look)
        if len(found) > MAX_ENTRIES:
            raise TooLarge(
                f"This folder holds more than {MAX_ENTRIES} entries; list a smaller one."
            )
