"""Checks of what extensions say: whether it is a text, and whether it is yes or no."""

from __future__ import annotations

from collections.abc import Mapping

from core.errors import Fault
from core.text import clean


def texts(given: Mapping[str, object], place: str, faults: list[Fault]) -> dict[str, str]:
    """Return these values as text that can be stored and sent, and note what is none."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, str):
            found[name] = clean(value)
        else:
            found[name] = ""
            what = f"{name} is {type(value).__name__}, not text."
            faults.append(Fault(place, what, f"Write {name}='…'."))
    return found


def check_switch(value: object, name: str, place: str, faults: list[Fault]) -> None:
    """Note what is neither yes nor no."""
    if not isinstance(value, bool):
        what = f"{name} is {type(value).__name__}, not yes or no."
        faults.append(Fault(place, what, f"Write {name}=True or {name}=False."))
