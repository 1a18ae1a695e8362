"""What `define_tool` wrote down, checked; whatever it says, the outcome is a declaration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

from core.declared import check_switch, texts
from core.errors import Fault
from core.tooling import DECLARATION, ToolDeclaration

_SIDE_EFFECTS: Final = ("none", "write", "external")
_DECISIONS: Final = ("approve", "edit", "reject", "respond")
_KINDS: Final = ("plain", "question", "plan", "delegate")
_TEXTS: Final = ("name", "group", "label", "summary")
_DEFAULTS: Final = ToolDeclaration()


def declaration_of(
    function: Callable[..., Any], place: str, faults: list[Fault]
) -> ToolDeclaration:
    """Return what was said of a tool; what cannot be taken is noted, and the default stands.

    Args:
        function: a function marked by `define_tool`.
        place: where it stands, for messages.
        faults: gets what is wrong.
    """
    said: object = getattr(function, DECLARATION, None)
    if not isinstance(said, Mapping):
        what = "This function is not declared as a tool."
        faults.append(Fault(place, what, "Put @define_tool on it."))
        return _DEFAULTS
    options = cast("Mapping[str, Any]", said)
    known = [item.name for item in fields(ToolDeclaration)]
    faults.extend(
        Fault(place, f"define_tool has no option {option!r}.", f"Known: {sorted(known)}.")
        for option in sorted(set(options) - set(known))
    )
    kept = {name: value for name, value in options.items() if name in known}
    before = len(faults)
    kept |= _texts(kept, place, faults)
    for name in ("requires_approval", "idempotent"):
        if name in kept:
            check_switch(kept[name], name, place, faults)
    _check_choices(kept, place, faults)
    if len(faults) > before:
        # The tool does not come about; its name is what other checks go on with.
        return ToolDeclaration(name=kept.get("name"))
    return ToolDeclaration(**kept)


def _texts(kept: Mapping[str, Any], place: str, faults: list[Fault]) -> dict[str, Any]:
    """Return the texts, clean; None stands for one that was left out."""
    given = {name: kept[name] for name in _TEXTS if name in kept}
    found: dict[str, Any] = texts(
        {name: value for name, value in given.items() if value is not None}, place, faults
    )
    missing = {name: getattr(_DEFAULTS, name) for name, value in given.items() if value is None}
    return found | missing


def _check_choices(kept: Mapping[str, Any], place: str, faults: list[Fault]) -> None:
    for name, choices in (("side_effect", _SIDE_EFFECTS), ("kind", _KINDS)):
        value = kept.get(name, choices[0])
        if not isinstance(value, str) or value not in choices:
            what = f"{name}={_shown(value)} is not known."
            faults.append(Fault(place, what, f"Use one of {choices}."))
    if not _are_decisions(kept.get("allowed_decisions", _DECISIONS)):
        what = (
            f"allowed_decisions={_shown(kept['allowed_decisions'])} is not a choice of decisions."
        )
        faults.append(Fault(place, what, f"Choose from {_DECISIONS}."))
    if not _is_time(kept.get("timeout")):
        what = f"timeout={_shown(kept['timeout'])} is not a time."
        faults.append(Fault(place, what, "Give seconds above 0."))


def _are_decisions(value: object) -> bool:
    if not isinstance(value, list | tuple | set | frozenset) or not value:
        return False
    return all(
        isinstance(one, str) and one in _DECISIONS for one in cast("tuple[object, ...]", value)
    )


def _is_time(value: object) -> bool:
    if value is None:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0


def _shown(value: object) -> str:
    """Return a value for a message: plain ones as they are, others by their kind."""
    return repr(value)[:80] if isinstance(value, str | int | float) else type(value).__name__
