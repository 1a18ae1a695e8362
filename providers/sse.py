"""Server-sent events out of bytes, however they are cut; tolerant of what servers really send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"

LONGEST_FRAME: Final = 16 * 1024 * 1024
"""Bytes of one event; more is not a chat completion."""


class FrameTooLong(ValueError):
    """One event is longer than `LONGEST_FRAME`."""


@dataclass(slots=True)
class SseDecoder:
    """Takes bytes and gives out `(event, data)` pairs.

    Lines end with LF, CRLF or CR; comments are counted and dropped; several `data:` lines of one
    event are joined. Only whole lines are decoded, so bytes may be cut inside a character.
    """

    comments: int = 0
    """Comment lines so far; they show that the server is alive."""
    _rest: bytes = b""
    _data: list[bytes] = field(default_factory=list)
    _event: str = ""
    _started: bool = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        """Take more bytes; return the events that they complete."""
        data = self._rest + data
        if not self._started:
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._rest = data
                return []
            self._started = True
            data = data.removeprefix(_BOM)
        held = b""
        if data.endswith(b"\r"):
            # The LF of a CRLF may be the next byte.
            data, held = data[:-1], b"\r"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = data.split(b"\n")
        self._rest = rest + held
        if len(self._rest) > LONGEST_FRAME:
            raise FrameTooLong
        return self._events(lines)

    def close(self) -> list[tuple[str, bytes]]:
        """Return what stood at the end without its blank line."""
        lines = self._rest.rstrip(b"\r").split(b"\r")
        self._rest = b""
        return self._events([*lines, b""])

    def _events(self, lines: list[bytes]) -> list[tuple[str, bytes]]:
        events: list[tuple[str, bytes]] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append((self._event, b"\n".join(self._data)))
                self._data, self._event = [], ""
                continue
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"event":
                self._event = value.strip().decode("utf-8", "replace")
            elif not name:
                self.comments += 1
        return events
