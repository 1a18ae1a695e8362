"""A session's files with the skills beside them, under `/skills/<name>/…`, for reading only."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from core.errors import FileMissing, PathRefused
from core.ports import FileEntry, FileStore
from sandbox import listing, paths
from sandbox.paths import ROOTS, SKILLS, VirtualPath
from tools.skills.library import Shelf
from tools.skills.sources import MANIFEST

MOST_FILE: Final = 20 << 20
"""Bytes of a file of a skill."""

_READ_ONLY: Final = (
    "/skills/ can only be read. Write under /workspace/; copy a skill's file there to change it."
)


@dataclass(frozen=True, slots=True)
class SkilledFiles:
    """Adds the root `/skills/` to a file store; implements `core.ports.FileStore`.

    A path leads to the skill that wins for this user, and never to a real path.
    """

    _store: FileStore
    _shelf: Shelf

    async def read(self, path: str) -> tuple[bytes, FileEntry]:
        """Return the whole content and its entry (with `sha256`)."""
        place = _skill_place(path)
        if place is None:
            return await self._store.read(path)
        name, *parts = place.parts or ("",)
        if not parts or path.endswith("/"):
            raise PathRefused("This is a folder, not a file.")
        source = self._shelf.find(name).source
        inner = VirtualPath(name, tuple(parts))
        content, there = await asyncio.to_thread(source.read_file, inner, MOST_FILE)
        sha256 = hashlib.sha256(content).hexdigest()
        return content, listing.entry_of(place, there, sha256)

    async def write(
        self, path: str, content: bytes, *, expected_sha256: str | None = None
    ) -> FileEntry:
        """Replace or create the file in one step; refused under `/skills/`."""
        _refuse_skills(path)
        return await self._store.write(path, content, expected_sha256=expected_sha256)

    async def append(self, path: str, content: bytes) -> FileEntry:
        """Add to the end of the file; refused under `/skills/`."""
        _refuse_skills(path)
        return await self._store.append(path, content)

    async def list(self, path: str, *, recursive: bool = False) -> list[FileEntry]:
        """Return the entries of a folder, sorted by path."""
        place = _skill_place(path)
        if place is None:
            return await self._store.list(path, recursive=recursive)
        if place.parts:
            return await self._below(place.parts[0], place.parts[1:], recursive=recursive)
        found: list[FileEntry] = []
        for skill in self._shelf.skills:
            if skill.fault is not None:
                continue
            found.append(await self._folder(skill.name))
            if recursive:
                found += await self._below(skill.name, (), recursive=True)
        return sorted(found, key=lambda entry: entry.path)

    async def store_upload(self, name: str, content: bytes) -> FileEntry:
        """Store an uploaded file under `/workspace/uploads/`, never overwriting another."""
        return await self._store.store_upload(name, content)

    async def remove(self, path: str) -> None:
        """Remove one file; refused under `/skills/`."""
        _refuse_skills(path)
        await self._store.remove(path)

    async def delete_all(self) -> None:
        """Remove everything of this project; skills belong to the user and stay."""
        await self._store.delete_all()

    # Helpers ----------------------------------------------------------------------------

    async def _below(
        self, name: str, parts: tuple[str, ...], *, recursive: bool
    ) -> list[FileEntry]:
        source = self._shelf.find(name).source
        entries = await asyncio.to_thread(
            source.entries, VirtualPath(name, parts), recursive=recursive
        )
        return [replace(entry, path=f"/{SKILLS}{entry.path}") for entry in entries]

    async def _folder(self, name: str) -> FileEntry:
        """Return the entry of a skill's folder, as old as its instructions."""
        source = self._shelf.find(name).source
        modified_at = datetime.fromtimestamp(0, UTC)
        try:
            for entry in await asyncio.to_thread(
                source.entries, VirtualPath(name, ()), recursive=False
            ):
                if entry.path == f"/{name}/{MANIFEST}":
                    modified_at = entry.modified_at
        except (FileMissing, PathRefused):
            pass  # removed just now; the next look leaves it out
        return FileEntry(f"/{SKILLS}/{name}", "folder", 0, modified_at)


def _skill_place(path: str) -> VirtualPath | None:
    """Return the checked place under `/skills/`, or nothing for a path of the project.

    Raises:
        PathRefused: it is not a plain path under a known root.
    """
    place = paths.parse(path, (*ROOTS, SKILLS))
    return place if place.root == SKILLS else None


def _refuse_skills(path: str) -> None:
    if _skill_place(path) is not None:
        raise PathRefused(_READ_ONLY)
