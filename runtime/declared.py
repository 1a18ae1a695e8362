"""What extensions say of an agent besides its name and its tools: texts, switches, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from core.errors import Fault
from core.text import clean

MOST_PARALLEL: Final = 64
"""Calls of one turn that an agent may carry out side by side."""


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


def checked_options(options: dict[str, Any], place: str, faults: list[Fault]) -> dict[str, Any]:
    """Return an agent's options, and note values that cannot be taken."""
    kept = dict(options)
    if "label" in kept:
        kept |= texts({"label": kept["label"]}, place, faults)
    for name in ("review", "free_calls_first"):
        if name in kept:
            check_switch(kept[name], name, place, faults)
    calls: object = kept.get("parallel_calls", 1)
    if isinstance(calls, bool) or not isinstance(calls, int) or not 0 < calls <= MOST_PARALLEL:
        what = "parallel_calls is no whole number of calls."
        faults.append(Fault(place, what, f"Write one from 1 to {MOST_PARALLEL}."))
    if isinstance(kept.get("limits"), Mapping):
        for name, value in cast("Mapping[Any, Any]", kept["limits"]).items():
            if not _a_limit(value):
                what = f"The limit {str(name)[:80]!r} is no number from 0 on."
                faults.append(Fault(place, what, "Write a number; 0 sets no limit where it may."))
    return kept


def _a_limit(value: object) -> bool:
    """Tell whether something can be a limit; switches among them are true or false."""
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0
