"""Which file names are allowed, and how an uploaded one is made safe."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from core.errors import PathRefused

MAX_NAME_BYTES: Final = 255
"""What common file systems hold for one name, in UTF-8."""

_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "clock$", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidi, zero width), lone surrogate, line and paragraph separators."""
_ENCODED: Final = re.compile(r"%(?:2f|5c|00|2e%2e)", re.IGNORECASE)
"""Separators that a careless decoder further on would bring to life."""
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_FOLDERS_FIRST: Final = "Use a plain name of letters, digits, spaces, dots, dashes or underscores."


def check_name(name: str) -> str:
    """Return the name in its one allowed form (NFC), or refuse it.

    Raises:
        PathRefused: the name could mean something else to a file system, a shell or a reader.
    """
    why = _fault(name)
    if why is None:
        name = unicodedata.normalize("NFC", name)
        why = _fault(name)
    if why is not None:
        raise PathRefused(f"This name is not allowed: {why}. {_FOLDERS_FIRST}")
    return name


def is_plain(name: str) -> bool:
    """Tell whether a name found on disk is one that `check_name` would give."""
    return _fault(name) is None and unicodedata.normalize("NFC", name) == name


def upload_name(name: str) -> str:
    """Return a safe name for an uploaded file, keeping as much of its own as can be kept.

    A name that tries to leave the folder is refused; one that is only awkward (hidden file,
    leading dash, zero-width characters, dots at its end) is tidied.

    Raises:
        PathRefused: the name holds a separator, a control character, a device name, `..`.
    """
    visible = "".join(char for char in name if unicodedata.category(char) != "Cf")
    tidy = visible.strip(" ")
    if tidy not in {".", ".."}:
        tidy = tidy.rstrip(". ")
        if not _looks_like_escape(tidy):
            tidy = tidy.lstrip(".- ") or ("file" if tidy else "")
    return check_name(tidy)


def numbered(name: str, number: int) -> str:
    """Return `report-2.md` for `report.md` and 2, shortened to fit."""
    stem, dot, extension = name.rpartition(".")
    if not stem or len(extension) > 16:
        stem, dot, extension = name, "", ""
    tail = f"-{number}{dot}{extension}"
    room = MAX_NAME_BYTES - len(tail.encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip(". ") + tail


def _looks_like_escape(name: str) -> bool:
    return "/" in name or "\\" in name or name.startswith("..")


def _fault(name: str) -> str | None:
    """Say what is wrong with the name, or nothing."""
    if not name:
        return "it is empty"
    return _fault_of_characters(name) or _fault_of_form(name) or _fault_of_meaning(name)


def _fault_of_characters(name: str) -> str | None:
    for char in name:
        if unicodedata.category(char) in _HIDDEN_CATEGORIES:
            return "it holds a character that cannot be seen"
        if ord(char) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF:
            return "it holds a code that is no character"
    if "/" in name or "\\" in name:
        return "it holds a separator"
    return None


def _fault_of_form(name: str) -> str | None:
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if name in {".", ".."}:
        return "it names a folder by dots"
    if name[-1] in ". " or name[0].isspace() or name[-1].isspace():
        return "it begins with a space or ends with a space or dot"
    if name.startswith("-"):
        return "it begins with a dash, which programs take for an option"
    return None


def _fault_of_meaning(name: str) -> str | None:
    if name.partition(".")[0].rstrip().casefold() in _DEVICES:
        return "it is the name of a device"
    if _DRIVE.match(name):
        return "it begins with a drive"
    if _ENCODED.search(name):
        return "it holds an encoded separator"
    # Full-width dots and slashes, two-dot leaders: harmless here, not to what reads them next.
    plain = unicodedata.normalize("NFKC", name)
    if any(char in plain for char in "/\\\0") or plain.rstrip(". ") == "":
        return "it holds a look-alike of a separator or of dots"
    return None
