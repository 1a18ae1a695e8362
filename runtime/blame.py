"""Tells what an extension's code raised, and at which line of its file."""

from __future__ import annotations

import traceback

from core.masking import mask


def told(error: BaseException, where: str) -> str:
    """Return an exception in a few words, without secrets, such as `KeyError: 'x' (line 3)`.

    Args:
        error: what was raised.
        where: the extension's file as people know it; its last line in the stack is named.
    """
    text = mask(f"{type(error).__name__}: {error}".rstrip(" :."))[:500]
    return f"{text}{_line_of(error, where)}"


def _line_of(error: BaseException, where: str) -> str:
    """Return where in the extension it happened, when that is known."""
    ending = where.rpartition(": ")[2].replace("\\", "/")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.replace("\\", "/").endswith(f"/{ending}"):
            return f" (line {frame.lineno})"
    return ""
