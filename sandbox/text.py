"""Text files in any common encoding, read right and written back as they were (WORK-05)."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from core.errors import FileRefused

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""UTF-32 before UTF-16, whose mark is the beginning of UTF-32's."""

_SPACES: Final = frozenset("\t\n\r\f\v\b\x1b")
"""Control characters that text files do hold: white space, and the colours of a log."""
_NOT_TEXT: Final = "This is not a text file."


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a text stands in its file."""

    name: str
    bom: bytes = b""


UTF8: Final = Encoding("utf-8")


def decode(content: bytes) -> tuple[str, Encoding]:
    """Return the text of a file and the encoding it was in.

    Raises:
        FileRefused: the file is not text.
    """
    for bom, name in _BOMS:
        if content.startswith(bom):
            return _strict(content[len(bom) :], Encoding(name, bom))
    try:
        if b"\0" not in content:
            return content.decode("utf-8"), UTF8
    except UnicodeDecodeError:
        return _strict(content, Encoding("gb18030"))
    return _strict(content, Encoding(_utf16_without_mark(content)))


def encode(text: str, encoding: Encoding = UTF8) -> bytes:
    """Return the bytes of a text in that encoding; UTF-8 where it cannot hold the text.

    Raises:
        FileRefused: the text holds half of a character pair, which no file can hold.
    """
    try:
        return encoding.bom + text.encode(encoding.name)
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileRefused("This text holds half of a character, so it cannot be stored.") from error


def _utf16_without_mark(content: bytes) -> str:
    """Tell the byte order from where the zero bytes of Latin letters and line ends stand."""
    even, odd = content[0::2].count(0), content[1::2].count(0)
    if even and odd:
        return "ascii"  # zeros everywhere: not text, and ASCII will say so
    return "utf-16-be" if even else "utf-16-le"


def _strict(content: bytes, encoding: Encoding) -> tuple[str, Encoding]:
    try:
        text = content.decode(encoding.name)
    except UnicodeDecodeError as error:
        raise FileRefused(_NOT_TEXT) from error
    if any(char < " " and char not in _SPACES for char in text):
        raise FileRefused(_NOT_TEXT)
    return text, encoding
