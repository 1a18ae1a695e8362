"""Checks factories that extensions register: what they take, and the names they stand for."""

from __future__ import annotations

import inspect
from typing import Any, Final

from core.errors import Fault

_SHAPES: Final = {
    0: ("It does not work without arguments.", "Let the factory take none."),
    1: ("It does not take exactly one argument.", "Let the factory take one: {what}."),
}


def check_factory(factory: Any, takes: str, place: str, faults: list[Fault]) -> None:
    """Note a factory that cannot be called, is asynchronous, or takes something else.

    Args:
        factory: what was registered.
        takes: what its one argument is; empty where it takes none.
        place: where it is, for the fault.
        faults: gets what is wrong.
    """
    if not callable(factory):
        cure = f"Pass a function that takes {takes or 'nothing'}."
        faults.append(Fault(place, "Its factory cannot be called.", cure))
        return
    if inspect.iscoroutinefunction(factory) or inspect.isgeneratorfunction(factory):
        cure = "Make it a plain function; asynchronous work belongs into what it returns."
        faults.append(Fault(place, "Its factory is no plain function.", cure))
        return
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return  # builtins without a signature; calling them will tell
    try:
        signature.bind(*((None,) if takes else ()))
    except TypeError:
        what, cure = _SHAPES[1 if takes else 0]
        faults.append(Fault(place, what, cure.format(what=takes)))
