"""Checks the services that extensions registered, and finds the order in which they start."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from core.errors import Fault
from core.registry import ServiceDeclaration, ServiceSpec
from runtime.naming import ALLOWED, known_or_none, listed, nearest, well_formed
from runtime.ordering import arranged


def services_of(
    declarations: Sequence[ServiceDeclaration], faults: list[Fault]
) -> tuple[ServiceSpec, ...]:
    """Return the services in the order in which they start, and note everything wrong."""
    found: dict[str, ServiceSpec] = {}
    for said in declarations:
        place = f"{said.where}: service {said.name!r}"
        needs = tuple(dict.fromkeys(map(str, listed(said.requires, "requires", place, faults))))
        _check_factory(said.factory, place, faults)
        if not well_formed(said.name):
            faults.append(Fault(place, "This name is not allowed.", ALLOWED))
        elif said.name in found:
            what = f"{found[said.name].where} registers a service of that name already."
            faults.append(Fault(place, what, "Give one of them another name."))
        else:
            found[said.name] = ServiceSpec(
                said.name, said.factory, needs, said.where, said.extension
            )
    for name, spec in found.items():
        check_required(spec.requires, found, f"{spec.where}: service {name!r}", faults)
    order, circles = arranged({name: spec.requires for name, spec in found.items()})
    for circle in circles:
        what = f"These services need each other in a circle: {' → '.join(circle)}."
        cure = "Take one of them off the requires of the one before it."
        faults.append(Fault(found[circle[0]].where, what, cure))
    return tuple(found[name] for name in order)


def check_required(
    requires: Sequence[str],
    services: Mapping[str, ServiceSpec] | Collection[str],
    place: str,
    faults: list[Fault],
) -> None:
    """Note each required service that nobody registered, with the one that was meant."""
    for name in requires:
        if name not in services:
            cure = f"{nearest(name, services)}{known_or_none(services, 'services')}"
            what = f"requires names {name!r}, which is no registered service."
            faults.append(Fault(place, what, cure))


def _check_factory(factory: Any, place: str, faults: list[Fault]) -> None:
    """Note a factory that cannot be called, or that was left without its decorator."""
    if not callable(factory):
        cure = "Pass a function that takes the services it requires."
        faults.append(Fault(place, "Its factory cannot be called.", cure))
        return
    if inspect.isasyncgenfunction(factory) or inspect.iscoroutinefunction(factory):
        cure = "Put @asynccontextmanager on it and yield the service."
        what = "Its factory gives no asynchronous context manager."
        faults.append(Fault(place, what, cure))
        return
    try:
        inspect.signature(factory).bind({})
    except TypeError:
        what = "Its factory does not take exactly one argument."
        cure = "Let it take one: the mapping of the services that it requires."
        faults.append(Fault(place, what, cure))
    except ValueError:
        return  # builtins without a signature; calling them will tell
