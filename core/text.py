"""Text that every part can store and send: no lone surrogates, no NUL (case L25)."""

from __future__ import annotations

import re
from typing import Any, Final, cast

REPLACEMENT: Final = "\ufffd"

DEEPEST: Final = 100
"""Levels of lists and objects that arguments of tools may have."""

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**64 - 1
"""Bounds of whole numbers in checkpoints."""

_BAD: Final = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """Return the text as valid Unicode that PostgreSQL, JSON and UTF-8 take.

    Halves of a pair that stand together become their character; what is left of lone
    surrogates, and NUL, becomes U+FFFD.
    """
    if _BAD.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined.replace("\x00", REPLACEMENT)


def clean_value(value: Any) -> Any:
    """Clean every text inside a JSON value, names of fields too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {clean(str(key)): clean_value(one) for key, one in fields.items()}
    if isinstance(value, list):
        return [clean_value(one) for one in cast("list[Any]", value)]
    return value


def unfit(value: Any) -> str | None:
    """Return why a JSON value cannot be stored with a checkpoint, or None where it can.

    Lists and objects may lie `DEEPEST` levels inside each other, whole numbers have 64 bits.
    """
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(cast("dict[str, Any]", one).values())
            elif isinstance(one, list):
                below.extend(cast("list[Any]", one))
            elif isinstance(one, int) and not SMALLEST <= one <= LARGEST:
                return "a whole number has more than 64 bits"
        if not below:
            return None
        level = below
    return "it is nested too deeply"


def fenced(name: str, text: str) -> str:
    """Return the text between tags of that name, which nothing inside it can open or close."""
    inside = re.sub(rf"<(?=\s*/?\s*{re.escape(name)}\b)", "<\u200b", text, flags=re.IGNORECASE)
    return f"<{name}>\n{inside}\n</{name}>"


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters, saying how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
