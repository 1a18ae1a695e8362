"""Folders in which skills lie, read carefully and kept in memory until a file changes.

Everything here blocks and runs in threads. Real paths never leave this module: faults name only
what people called their folders.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from core.errors import FileMissing, PathRefused, TooLarge
from core.ports import FileEntry
from core.skills import Skill, SkillFault, SkillSource
from sandbox import folder, listing
from sandbox.names import is_plain
from sandbox.paths import VirtualPath
from tools.skills.matter import MOST_TEXT, BrokenSkill, check_name, read_manifest

MANIFEST: Final = "SKILL.md"
MOST_SKILLS: Final = 500
"""Skills of one source; a folder with more is more likely a mistake."""

_SKIPPED: Final = (".", "_")
"""Names that begin so belong to tools, such as `.git` and `__pycache__`."""


@dataclass(frozen=True, slots=True)
class Shelved:
    """A skill together with where its files are."""

    skill: Skill
    source: Source
    body: str = ""
    first_line: int = 1


@dataclass(frozen=True, slots=True)
class _Known:
    """What a folder held when its `SKILL.md` looked like this."""

    stamp: tuple[int, ...]
    shelved: Shelved


@dataclass(slots=True)
class Source:
    """One folder of skills."""

    kind: SkillSource
    base: str
    """A real folder."""
    names: Sequence[str] = ()
    """Folders below it, each of which may be missing."""
    where: str = ""
    """What brought it, for people."""
    trusted: bool = False
    """Whether it came with the product or an extension, whose files may have been hard-linked."""
    fault: SkillFault | None = None
    """What was wrong with the whole folder at the last look."""
    _known: dict[str, _Known] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> list[Shelved]:
        """Return the skills of this folder by name, broken ones too.

        Costs one look at each `SKILL.md`; only those that changed are read again.
        """
        with self._lock:
            try:
                with self.opened() as top:
                    known = {name: self._look(top, name) for name in self._folders(top)}
                self.fault = None
            except FileMissing:
                known = {}
                cause = "The folder of skills is not there."
                self.fault = SkillFault(cause, "Restore it.") if self.trusted else None
            except (PathRefused, TooLarge, OSError) as error:
                known = {}
                self.fault = _fault_of_folder(error)
            self._known = known
            return [known[name].shelved for name in sorted(known)]

    def read_file(self, place: VirtualPath, limit: int) -> tuple[bytes, os.stat_result]:
        """Return content and status of a file of a skill; `place.root` is the skill's folder.

        Raises:
            FileMissing, PathRefused, TooLarge: as `core.ports.FileStore` says.
        """
        *above, name = (place.root, *place.parts)
        with (
            self.opened() as top,
            folder.opened(top, above) as parent,
            folder.opened_file(parent, name, twins=self.trusted) as handle,
        ):
            return folder.read_all(handle, limit), os.fstat(handle)

    def entries(self, place: VirtualPath, *, recursive: bool) -> list[FileEntry]:
        """Return what lies in a folder of a skill.

        Raises:
            FileMissing, PathRefused, TooLarge: as `core.ports.FileStore` says.
        """
        with self.opened() as top:
            return listing.entries_of(top, place, recursive=recursive, twins=self.trusted)

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Give the descriptor of the folder.

        Raises:
            FileMissing: it is not there.
            PathRefused: a link stands in its way.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            base = os.open(self.base, flags)
        except FileNotFoundError as error:
            raise FileMissing from error
        try:
            with folder.opened(base, self.names) as top:
                yield top
        finally:
            os.close(base)

    # Helpers ----------------------------------------------------------------------------

    def _folders(self, top: int) -> list[str]:
        """Return the names that stand for skills: folders, and links that should be folders."""
        found: list[str] = []
        for name in sorted(os.listdir(top)):
            if name.startswith(_SKIPPED):
                continue
            there = folder.status(top, name)
            if there is not None and (stat.S_ISDIR(there.st_mode) or stat.S_ISLNK(there.st_mode)):
                found.append(name)
        if len(found) > MOST_SKILLS:
            raise TooLarge(f"It holds {len(found)} skills; {MOST_SKILLS} are allowed.")
        return found

    def _look(self, top: int, name: str) -> _Known:
        stamp = _stamp(top, name)
        known = self._known.get(name)
        if known is not None and known.stamp == stamp and stamp:
            return known
        return _Known(stamp, self._shelved(top, name))

    def _shelved(self, top: int, name: str) -> Shelved:
        try:
            check_name(name)
            if not is_plain(name):
                raise BrokenSkill("Its name means a device on some systems.", "Rename its folder.")
            said = read_manifest(self._manifest(top, name), name)
        except BrokenSkill as broken:
            skill = Skill(visible(name), "", self.kind, self.where, fault=broken.fault)
            return Shelved(skill, self)
        skill = Skill(name, said.description, self.kind, self.where)
        return Shelved(skill, self, said.body, said.first_line)

    def _manifest(self, top: int, name: str) -> bytes:
        """Return the content of a `SKILL.md`.

        Raises:
            BrokenSkill: it cannot be read.
        """
        try:
            with (
                folder.opened(top, [name]) as place,
                folder.opened_file(place, MANIFEST, twins=self.trusted) as handle,
            ):
                return folder.read_all(handle, MOST_TEXT)
        except FileMissing as error:
            cure = f"Add a {MANIFEST} (in capitals), or move the folder elsewhere."
            raise BrokenSkill(f"It has no {MANIFEST}.", cure) from error
        except PathRefused as error:
            cure = "Put the real folder and a plain file there: links are not followed."
            raise BrokenSkill(error.message, cure) from error
        except TooLarge as error:
            cure = "Keep the instructions short and put the rest into references/."
            raise BrokenSkill(f"{MANIFEST} has more than {MOST_TEXT:,} bytes.", cure) from error
        except OSError as error:
            cure = "Give the server's user the right to read it."
            raise BrokenSkill(f"{MANIFEST} cannot be read: {error.strerror}.", cure) from error


def _stamp(top: int, name: str) -> tuple[int, ...]:
    """Return what changes when a `SKILL.md` does; empty where it must be read anew."""
    try:
        place = folder.status(top, name)
        there = os.stat(f"{name}/{MANIFEST}", dir_fd=top, follow_symlinks=False)
    except OSError:
        return ()
    if place is None or not stat.S_ISDIR(place.st_mode):
        return ()
    return (
        place.st_ino,
        there.st_ino,
        there.st_size,
        there.st_mtime_ns,
        there.st_ctime_ns,
        there.st_mode,
        there.st_nlink,
    )


def _fault_of_folder(error: Exception) -> SkillFault:
    if isinstance(error, TooLarge):
        return SkillFault(error.message, "Remove what is not needed.")
    if isinstance(error, PathRefused | NotADirectoryError):
        cause = "The folder of skills is a link or no folder."
        return SkillFault(cause, "Put a real folder there.")
    cause = f"The folder of skills cannot be read: {getattr(error, 'strerror', None) or 'error'}."
    return SkillFault(cause, "Give the server's user the right to read it.")


def visible(name: str) -> str:
    """Return the name of a folder so that it can be shown and sent: nothing hidden, no bytes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in name
    )
