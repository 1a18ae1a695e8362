"""One project's folder on disk: its lock, its staging place, its size."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import FileMissing, TooLarge
from sandbox import folder

STAGING: Final = ".staging"
"""Where content waits until it is whole; beside the roots, so that no sandbox sees it."""
_LOCK: Final = ".lock"
_GONE: Final = ".gone-"


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """Where a project lies below the data folder. Every call is blocking: use a thread."""

    base: str
    """The real folder `…/workspaces`."""
    names: tuple[str, str, str]
    """Workspace, user, project."""

    @contextmanager
    def opened(self, *, create: bool = False) -> Iterator[int]:
        """Give the descriptor of the project's folder.

        Raises:
            FileMissing: nothing was ever written.
        """
        if create:
            Path(self.base).mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            base = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise FileMissing from error
        try:
            with folder.opened(base, self.names, create=create) as project:
                yield project
        finally:
            os.close(base)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Give the project's folder, made if needed, with every other writer kept out.

        The lock is the file's, so it also keeps out writers of other processes.
        """
        with self.opened(create=True) as project:
            lock = os.open(
                _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=project
            )
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield project
            finally:
                os.close(lock)

    def remove(self) -> None:
        """Delete the whole project; links in it are removed, never followed."""
        with suppress(FileMissing), self.opened():
            self._remove_existing()

    def _remove_existing(self) -> None:
        owner, name = self.names[:2], self.names[2]
        base = os.open(self.base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with self.locked(), folder.opened(base, owner) as parent:
                # Out of sight first: a reader sees all of the project or nothing of it.
                gone = _GONE + secrets.token_hex(8)
                os.rename(name, gone, src_dir_fd=parent, dst_dir_fd=parent)
                shutil.rmtree(gone, dir_fd=parent)
        finally:
            os.close(base)


@contextmanager
def staged(project: int, content: bytes) -> Iterator[tuple[int, str]]:
    """Give (folder, name) of a file that holds the content safely on disk.

    Whoever moves it away keeps it; otherwise it is removed. It stands in the project's
    folder, hence on the same file system as its target, so that moving it is one step.
    """
    with folder.opened(project, [STAGING], create=True) as staging:
        name = secrets.token_hex(16)
        with folder.opened_file(staging, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
            try:
                folder.write_all(handle, content)
                yield staging, name
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=staging)


def tree_size(project: int, roots: Sequence[str]) -> int:
    """Return the bytes of all plain files below these folders of the project."""
    total = 0
    for root in roots:
        with suppress(FileMissing), folder.opened(project, [root]) as start:
            total += _size_below(start)
    return total


def _size_below(start: int) -> int:
    total = 0
    for _, _, names, here in os.fwalk(dir_fd=start, follow_symlinks=False):
        for name in names:
            there = folder.status(here, name)
            if there is not None and stat.S_ISREG(there.st_mode):
                total += there.st_size
    return total


def check_quota(used: int, more: int, quota: int) -> None:
    """Refuse what would take the project over its quota.

    Raises:
        TooLarge: it would.
    """
    if used + more > quota:
        raise TooLarge(
            f"The project's files may take {quota} bytes in all; {used} are used.",
            details={"quota": quota, "used": used, "cure": "Delete files you no longer need."},
        )
