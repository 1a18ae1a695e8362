"""What extensions say of an agent besides its name and its tools, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from core.declared import check_switch, texts
from core.errors import Fault

MOST_PARALLEL: Final = 64
"""Calls of one turn that an agent may carry out side by side."""


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
