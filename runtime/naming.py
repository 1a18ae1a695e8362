"""What names may look like, which one was probably meant, and lists that are none."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final, cast

from core.errors import Fault

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
ALLOWED: Final = "Use 1 to 64 letters, digits, `_` or `-`."


def well_formed(name: object) -> bool:
    """Tell whether something may be the name of a tool, an agent or a service."""
    return isinstance(name, str) and _NAME.match(name) is not None


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a sentence with the name that was probably meant, or nothing."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"Did you mean {found[0]!r}? " if found else ""


def known_or_none(known: Iterable[str], what: str) -> str:
    """Return a sentence that lists what there is."""
    return f"Known {what}: {', '.join(sorted(known)) or 'none'}."


def listed(value: Any, field: str, place: str, faults: list[Fault]) -> tuple[Any, ...]:
    """Return the items of a list; what is none, a plain text above all, becomes a fault."""
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(cast("Iterable[Any]", value))
    what = f"{field} is {type(value).__name__}, not a list."
    faults.append(Fault(place, what, f"Write a list of names: {field}=[…]."))
    return ()
