"""Text that every part can store and send: no lone surrogates, no NUL (case L25)."""

from __future__ import annotations

import re
from typing import Any, Final, cast

REPLACEMENT: Final = "\ufffd"

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


def shorten(text: str, limit: int) -> str:
    """Return at most `limit` characters, saying how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"
