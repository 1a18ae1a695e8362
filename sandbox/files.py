"""The one store through which everybody reads and writes the files of a project (WORK-02)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core.errors import FileChanged, FileMissing, PathRefused, TooLarge
from core.ports import FileEntry
from core.principal import Principal
from sandbox import folder, listing, paths, project
from sandbox.names import numbered, upload_name
from sandbox.paths import VirtualPath
from sandbox.project import ProjectFolder

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_UPLOADS: Final = "uploads"
_MAX_TWINS: Final = 10_000
_TRUST_FOR_WRITES: Final = 50
"""After so many writes the project's size is measured anew: others may write there too."""


@dataclass(frozen=True, slots=True)
class FileLimits:
    """How much may be stored, in bytes."""

    file: int
    project: int


@dataclass(slots=True)
class _Meter:
    """What a project takes, known without walking through it for every write."""

    used: int = 0
    trusted: int = 0


@dataclass(slots=True)
class LocalFileStores:
    """Opens file stores below `<data>/workspaces/<workspace>/<user>/<project>/`."""

    data_dir: Path
    limits: FileLimits
    _meters: dict[tuple[str, str, str], _Meter] = field(default_factory=dict)

    def open(self, principal: Principal, project_id: str, session_id: str) -> LocalFileStore:
        """Return the project's store for tools and clients: archives cannot be written."""
        del session_id  # all sessions of a project see the same files
        return self._store(principal, project_id, frozenset({paths.WORKSPACE}))

    def archive(self, principal: Principal, project_id: str) -> ConversationArchive:
        """Return the writer of `/conversation_history/`, for the server itself."""
        return ConversationArchive(self._store(principal, project_id, frozenset({paths.HISTORY})))

    def _store(
        self, principal: Principal, project_id: str, writable: frozenset[str]
    ) -> LocalFileStore:
        names = (str(principal.workspace_id), str(principal.user_id), project_id)
        if not all(_ID.match(name) for name in names):
            raise PathRefused("This project has no folder of its own.")
        place = ProjectFolder(str(self.data_dir.resolve() / "workspaces"), names)
        meter = self._meters.setdefault(names, _Meter())
        return LocalFileStore(place, self.limits, meter, writable)


@dataclass(frozen=True, slots=True)
class LocalFileStore:
    """The files of one project on this machine's disk; see `core.ports.FileStore`."""

    _place: ProjectFolder
    _limits: FileLimits
    _meter: _Meter
    _writable: frozenset[str]

    async def read(self, path: str) -> tuple[bytes, FileEntry]:
        """Return the whole content and its entry (with `sha256`)."""
        place = _file(path)
        return await asyncio.to_thread(self._read, place)

    async def write(
        self, path: str, content: bytes, *, expected_sha256: str | None = None
    ) -> FileEntry:
        """Replace or create the file in one step; folders above it are made.

        An empty `expected_sha256` expects that there is no such file yet.
        """
        place = self._for_writing(path)
        return await asyncio.to_thread(self._write, place, content, expected_sha256)

    async def append(self, path: str, content: bytes) -> FileEntry:
        """Add to the end of the file, creating it."""
        place = self._for_writing(path)
        return await asyncio.to_thread(self._append, place, content)

    async def list(self, path: str, *, recursive: bool = False) -> list[FileEntry]:
        """Return the entries of a folder, sorted by path."""
        place = paths.parse(path)
        return await asyncio.to_thread(self._list, place, recursive)

    async def store_upload(self, name: str, content: bytes) -> FileEntry:
        """Store an uploaded file under `/workspace/uploads/`, never overwriting another."""
        safe = upload_name(name)
        return await asyncio.to_thread(self._store_upload, safe, content)

    async def remove(self, path: str) -> None:
        """Remove one file."""
        place = self._for_writing(path)
        await asyncio.to_thread(self._remove, place)

    async def delete_all(self) -> None:
        """Remove everything of this project."""
        await asyncio.to_thread(self._place.remove)
        self._meter.trusted = 0

    # What follows blocks and runs in threads.

    def _read(self, place: VirtualPath) -> tuple[bytes, FileEntry]:
        *above, name = (place.root, *place.parts)
        with (
            self._place.opened() as top,
            folder.opened(top, above) as parent,
            folder.opened_file(parent, name) as handle,
        ):
            content = folder.read_all(handle, self._limits.file)
            return content, listing.entry_of(place, os.fstat(handle), _sha256(content))

    def _list(self, place: VirtualPath, recursive: bool) -> list[FileEntry]:
        try:
            with self._place.opened() as top:
                return listing.entries_of(top, place, recursive=recursive)
        except FileMissing:
            if place.parts:
                raise
            return []

    def _write(self, place: VirtualPath, content: bytes, expected: str | None) -> FileEntry:
        self._check_size(len(content))
        *above, name = (place.root, *place.parts)
        with self._place.locked() as top:
            if expected:
                # Nothing may be made, not even a folder, for a write that is refused.
                self._check_expected(top, place, expected)
            with folder.opened(top, above, create=True) as parent:
                old = folder.check_replaceable(parent, name)
                if expected == "" and old is not None:
                    raise FileChanged
                self._charge(top, len(content) - (old.st_size if old else 0))
                with project.staged(top, content) as temporary:
                    folder.move(temporary, (parent, name))
                return self._settled(parent, name, place, content)

    def _check_expected(self, top: int, place: VirtualPath, expected: str) -> None:
        *above, name = (place.root, *place.parts)
        try:
            with folder.opened(top, above) as parent, folder.opened_file(parent, name) as handle:
                found = _sha256(folder.read_all(handle, self._limits.file))
        except FileMissing as error:
            raise FileChanged("The file is gone; it was deleted or moved meanwhile.") from error
        if found != expected.lower():
            raise FileChanged

    def _append(self, place: VirtualPath, content: bytes) -> FileEntry:
        *above, name = (place.root, *place.parts)
        with (
            self._place.locked() as top,
            folder.opened(top, above, create=True) as parent,
        ):
            old = folder.check_replaceable(parent, name)
            before = old.st_size if old else 0
            self._check_size(before + len(content))
            self._charge(top, len(content))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with folder.opened_file(parent, name, flags) as handle:
                try:
                    folder.write_all(handle, content)
                except BaseException:
                    os.ftruncate(handle, before)  # all of it or nothing
                    raise
                os.fsync(parent)
                return listing.entry_of(place, os.fstat(handle))

    def _remove(self, place: VirtualPath) -> None:
        *above, name = (place.root, *place.parts)
        with self._place.locked() as top, folder.opened(top, above) as parent:
            there = folder.check_replaceable(parent, name)
            if there is None:
                raise FileMissing
            os.unlink(name, dir_fd=parent)
            os.fsync(parent)
            self._meter.used -= there.st_size

    def _store_upload(self, name: str, content: bytes) -> FileEntry:
        self._check_size(len(content))
        with (
            self._place.locked() as top,
            folder.opened(top, (paths.WORKSPACE, _UPLOADS), create=True) as parent,
        ):
            self._charge(top, len(content))
            with project.staged(top, content) as temporary:
                free = _reserve(parent, name)
                folder.move(temporary, (parent, free))
            place = VirtualPath(paths.WORKSPACE, (_UPLOADS, free))
            return self._settled(parent, free, place, content)

    def _settled(self, parent: int, name: str, place: VirtualPath, content: bytes) -> FileEntry:
        os.fsync(parent)  # the name, too, must survive a power cut
        there = folder.status(parent, name)
        if there is None:
            raise FileChanged("The file was removed while it was being written.")
        return listing.entry_of(place, there, _sha256(content))

    def _for_writing(self, path: str) -> VirtualPath:
        place = _file(path)
        if place.root not in self._writable:
            raise PathRefused(f"/{place.root}/ can only be read.")
        return place

    def _check_size(self, size: int) -> None:
        if size > self._limits.file:
            raise TooLarge(f"A file may have {self._limits.file} bytes; this has {size}.")

    def _charge(self, top: int, more: int) -> None:
        """Count bytes that are about to be written. Held lock; measured when in doubt."""
        quota, meter = self._limits.project, self._meter
        if meter.trusted <= 0 or meter.used + more > quota:
            meter.used, meter.trusted = project.tree_size(top, paths.ROOTS), _TRUST_FOR_WRITES
        if more > 0:
            project.check_quota(meter.used, more, quota)
        meter.used += more
        meter.trusted -= 1


@dataclass(frozen=True, slots=True)
class ConversationArchive:
    """Keeps what summarising removed; implements `core.ports.Archive`."""

    _store: LocalFileStore

    async def append(self, session_id: str, text: str) -> str:
        """Add text to the session's archive and return its virtual path."""
        path = f"/{paths.HISTORY}/{session_id}.md"
        await self._store.append(path, text.encode("utf-8", errors="replace"))
        return path

    async def keep(self, message_id: str, text: str) -> str:
        """Store one long tool result whole and return its virtual path; a repeat replaces it."""
        path = f"/{paths.HISTORY}/results/{message_id}.txt"
        await self._store.write(path, text.encode("utf-8", errors="replace"))
        return path


def _file(path: str) -> VirtualPath:
    """Return the checked place of a file.

    Raises:
        PathRefused: the path is not allowed, or names one of the roots.
    """
    place = paths.parse(path)
    if not place.parts or path.endswith("/"):
        raise PathRefused("This is a folder, not a file.")
    return place


def _reserve(parent: int, name: str) -> str:
    """Make an empty file under the first free name and return that name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in range(1, _MAX_TWINS):
        free = name if number == 1 else numbered(name, number)
        try:
            handle = os.open(free, flags, 0o600, dir_fd=parent)
        except FileExistsError:
            continue
        os.close(handle)
        return free
    raise TooLarge("Too many files of this name were uploaded; give this one another name.")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
