"""Results of a batch as JSONL: each line is on the disk before its item counts as done.

Lines are written in the order in which items are done, one fsync for all that came meanwhile. An
item that is done anew gets another line: the last line of a key counts. A file that was cut by a
crash in the middle of a line is mended when it is opened; a file that is no such file is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import orjson

from core.errors import BatchUnwritten, Invalid
from core.text import clean_value
from runtime.results import ExecutionResult

_FIRST: Final = b'{"key":'
"""How each of our lines begins; a last line that was cut is known by it."""

_BREAKS: Final = ("\x85", "\u2028", "\u2029")


@dataclass(slots=True)
class _Line:
    """A line that is not on the disk yet."""

    data: bytes
    written: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class ResultsFile:
    """The file, held by this process alone."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self._regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._size = 0
        self._waiting: list[_Line] = []
        self._writer: asyncio.Task[None] | None = None
        self.known: dict[str, ExecutionResult] = {}
        """What the file said when it was opened, by key."""
        self.failed: BatchUnwritten | None = None

    @classmethod
    async def open(cls, path: Path) -> ResultsFile:
        """Open or make the file, mend it, and read what it says.

        Raises:
            Invalid: it cannot be opened, is held by another process, or is no file of results.
        """
        return await asyncio.to_thread(cls._open, path)

    async def add(self, key: str, result: ExecutionResult) -> None:
        """Add a line, and return once it is on the disk.

        Raises:
            BatchUnwritten: it could not be written, or an earlier one could not.
        """
        if self.failed is not None:
            raise self.failed
        line = _Line(_encoded(clean_value({"key": key, **result.as_json()})))
        self._waiting.append(line)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all(), name="results")
        await asyncio.shield(line.written)

    async def close(self) -> None:
        """Write what waits, and let go of the file."""
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)
        os.close(self._descriptor)

    # Opening ----------------------------------------------------------------------------

    @classmethod
    def _open(cls, path: Path) -> ResultsFile:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            said = f"{path} cannot be opened for the results: {error.strerror}. Name another file."
            raise Invalid(said) from error
        try:
            opened = cls(path, descriptor)
            if opened._regular:
                opened._lock()
                opened._mend()
        except BaseException:
            os.close(descriptor)
            raise
        return opened

    def _lock(self) -> None:
        if sys.platform == "win32":
            return  # no such lock there; two batches must not be given one file
        import fcntl

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = f"{self._path} is written by another batch right now. Take another file."
            raise Invalid(said) from None

    def _mend(self) -> None:
        """Read the file; complete or take off a last line that was cut."""
        data = self._path.read_bytes()
        *lines, last = data.split(b"\n")
        problems = [f"line {at}" for at, line in enumerate(lines, start=1) if not self._read(line)]
        cut = bool(last) and not self._read(last)
        if problems or (cut and not _ours(last)):
            where = ", ".join([*problems[:10], *(["the last line"] if cut else [])])
            raise Invalid(
                f"{self._path} is no file of results of a batch ({where}). "
                "Nothing was changed in it; name another file."
            )
        try:
            if cut:
                os.ftruncate(self._descriptor, len(data) - len(last))
            elif last:
                os.write(self._descriptor, b"\n")
            os.fsync(self._descriptor)
        except OSError as error:
            raise Invalid(f"{self._path} cannot be written: {error.strerror}.") from error
        self._size = os.fstat(self._descriptor).st_size

    def _read(self, line: bytes) -> bool:
        """Take note of a line; false where it is none of ours."""
        if not line.strip():
            return True
        try:
            said: Any = orjson.loads(line)
            key = cast("dict[str, Any]", said)["key"]
            self.known[key] = ExecutionResult.from_json(said)
        except (ValueError, TypeError, KeyError):
            return False
        return True

    # Writing ----------------------------------------------------------------------------

    async def _write_all(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            if self.failed is None:
                try:
                    await asyncio.to_thread(self._write, b"".join(line.data for line in lines))
                except OSError as error:
                    self.failed = BatchUnwritten(
                        f"The results could not be written to {self._path}: {error.strerror}. "
                        "Everything that was done is kept in the database: make room, then start "
                        "the batch again."
                    )
                    self.failed.__cause__ = error
            for line in lines:
                if line.written.done():
                    continue
                if self.failed is None:
                    line.written.set_result(None)
                else:
                    line.written.set_exception(self.failed)
                    # Whoever waited may have been cancelled meanwhile; that is no news to anybody.
                    line.written.exception()

    def _write(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            if self._regular:
                os.fsync(self._descriptor)
        except OSError:
            if self._regular:
                # Half a line would be taken off by the next start; better there is none.
                with contextlib.suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)


def _encoded(said: Any) -> bytes:
    """Return a line. What some readers take for the end of one is escaped; it lies inside texts."""
    line = orjson.dumps(said)
    for sign in _BREAKS:
        line = line.replace(sign.encode(), f"\\u{ord(sign):04x}".encode())
    return line + b"\n"


def _ours(line: bytes) -> bool:
    """Tell whether a line that was cut may have been one of ours."""
    return line.startswith(_FIRST) or _FIRST.startswith(line) or not line.strip(b"\x00")
