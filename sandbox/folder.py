"""Folders held open by descriptor: no path is ever resolved twice, no link is followed.

Every step opens one name inside a folder that is already open (`openat`, `O_NOFOLLOW`).
Whoever swaps a folder for a link between two steps gets a refusal, not our write.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from core.errors import FileMissing, PathRefused, TooLarge

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that nobody writes to must not hold a thread for ever, hence O_NONBLOCK.
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LINK: Final = "A link stands in this path; links are not followed."
_CHUNK: Final = 1 << 20


@contextmanager
def opened(base: int, names: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Give the descriptor of a folder below `base`, walked one name at a time.

    Raises:
        FileMissing: one of the folders is not there and `create` was not asked.
        PathRefused: a link or a file stands where a folder should.
    """
    current = os.dup(base)
    try:
        for name in names:
            step = _step(current, name, create=create)
            os.close(current)
            current = step
        yield current
    finally:
        os.close(current)


def _step(folder: int, name: str, *, create: bool) -> int:
    if create:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            pass
        except OSError as error:
            raise _translated(error) from error
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        raise _translated(error) from error


def _translated(error: OSError) -> Exception:
    """Return our error for one of the system's, or the system's own where we have none."""
    if error.errno == errno.ENOENT:
        return FileMissing()
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return PathRefused("A link or a file stands where this path has a folder.")
    if error.errno in {errno.ENXIO, errno.EISDIR}:
        return PathRefused("This is not a plain file.")
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return TooLarge("The disk of the server is full.")
    return error


def status(folder: int, name: str) -> os.stat_result | None:
    """Return what stands under that name, the name itself and not what it may point to."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_replaceable(folder: int, name: str) -> os.stat_result | None:
    """Return the plain file under that name, or nothing when the name is free.

    Raises:
        PathRefused: a folder, a link, a device or a file with a second name stands there.
    """
    there = status(folder, name)
    if there is not None:
        _check_plain(there)
    return there


def _check_plain(there: os.stat_result, *, twins: bool = False) -> None:
    if stat.S_ISLNK(there.st_mode):
        raise PathRefused(_LINK)
    if stat.S_ISDIR(there.st_mode):
        raise PathRefused("This is a folder, not a file.")
    if not stat.S_ISREG(there.st_mode):
        raise PathRefused("This is not a plain file.")
    if there.st_nlink > 1 and not twins:
        raise PathRefused("This file has a second name (a hard link), so it is not touched.")


@contextmanager
def opened_file(
    folder: int, name: str, flags: int = os.O_RDONLY, *, twins: bool = False
) -> Iterator[int]:
    """Give the descriptor of a plain file, one with a single name unless `twins` are allowed.

    Installers make files of packages by hard links; what users can write must have one name.

    Raises:
        FileMissing: nothing is there.
        PathRefused: it is a link, a folder, a device, or has a second name.
    """
    try:
        handle = os.open(name, flags | _FILE_FLAGS, 0o600, dir_fd=folder)
    except OSError as error:
        there = status(folder, name)
        if there is not None and stat.S_ISLNK(there.st_mode):
            raise PathRefused(_LINK) from error
        raise _translated(error) from error
    try:
        # Of what was opened, not of what the name says now.
        _check_plain(os.fstat(handle), twins=twins)
        yield handle
    finally:
        os.close(handle)


def move(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Give the file its (folder, name) in one step, replacing a plain file that has it.

    Raises:
        FileMissing: the folder was removed meanwhile.
        PathRefused: a folder took the name meanwhile.
    """
    try:
        os.replace(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
    except OSError as error:
        raise _translated(error) from error


def read_all(handle: int, limit: int) -> bytes:
    """Return the whole content.

    Raises:
        TooLarge: there is more than `limit` bytes.
    """
    pieces: list[bytes] = []
    left = limit + 1
    while left > 0 and (piece := os.read(handle, min(left, _CHUNK))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        raise TooLarge(f"The file is larger than {limit} bytes.")
    return b"".join(pieces)


def write_all(handle: int, content: bytes) -> None:
    """Write everything and wait until the disk has it.

    Raises:
        TooLarge: the disk is full.
    """
    rest = memoryview(content)
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    except OSError as error:
        raise _translated(error) from error
