"""Checks the hooks that extensions registered; every fault with its cure."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from core.errors import Fault
from core.hooks import (
    LONGEST_TIMEOUT,
    NO_EMBEDDINGS,
    OF_ANY_GRAPH,
    POINTS,
    HookDeclaration,
    HookEvent,
    HookSpec,
)
from core.tooling import AgentSpec
from runtime.fingerprints import fingerprint_of, name_of
from runtime.naming import known_or_none, listed, nearest

_SHAPE = "Write `def {name}(event):`, plain or async, with this one parameter."


def hooks_of(
    declarations: Sequence[HookDeclaration],
    agents: Mapping[str, AgentSpec],
    faults: list[Fault],
) -> tuple[HookSpec, ...]:
    """Return the hooks in the order in which they are called, and note everything wrong.

    Args:
        declarations: what the extensions registered.
        agents: all agents, those with graphs of their own included.
        faults: gets what is wrong.
    """
    found: list[HookSpec] = []
    seen: list[tuple[str, Any]] = []
    for said in sorted(declarations, key=lambda said: said.extension):
        name = name_of(said.function)
        place = f"{said.where}: hook {name!r} at {str(said.point)[:80]!r}"
        before = len(faults)
        _check_point(said.point, place, faults)
        _check_function(said, name, place, faults)
        _check_options(said, place, faults)
        wanted = _agents(said, agents, place, faults)
        if any(point == said.point and _same(one, said.function) for point, one in seen):
            cure = "Register it once; agents=[…] names several."
            faults.append(Fault(place, "It is registered here already.", cure))
        seen.append((said.point, said.function))
        if len(faults) == before:
            found.append(_spec(said, name, wanted))
    return tuple(found)


def _same(one: object, other: object) -> bool:
    """Tell whether two functions are one; methods of one object are made anew at each look."""
    if inspect.ismethod(one) and inspect.ismethod(other):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


def _spec(said: HookDeclaration, name: str, agents: tuple[str, ...] | None) -> HookSpec:
    return HookSpec(
        name=name,
        point=said.point,
        function=said.function,
        timeout=float(cast("float", said.timeout)),
        on_error=cast("Literal['fail', 'ignore']", said.on_error),
        agents=agents,
        observes=said.observes is True,
        extension=said.extension,
        fingerprint=fingerprint_of(said.function),
    )


def _check_point(point: object, place: str, faults: list[Fault]) -> None:
    if point in NO_EMBEDDINGS:
        what = "Nothing is embedded yet, so a hook here would never be called."
        cure = "Take it out; what goes to models can be seen at model_request.before."
        faults.append(Fault(place, what, cure))
    elif point not in POINTS:
        cure = f"{nearest(point, POINTS)}{known_or_none(POINTS, 'points')}"
        faults.append(Fault(place, "There is no such point.", cure))


def _check_function(said: HookDeclaration, name: str, place: str, faults: list[Fault]) -> None:
    function: Any = said.function
    cure = _SHAPE.format(name=name)
    if inspect.iscoroutine(function):
        function.close()
        what = "It is what calling a function gave, not the function."
        faults.append(Fault(place, what, f"Leave the brackets out. {cure}"))
        return
    if not callable(function) or inspect.isclass(function):
        faults.append(Fault(place, "It is no function.", cure))
        return
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        what = "It yields, so that calling it does nothing."
        faults.append(Fault(place, what, f"Let it return the changed record. {cure}"))
        return
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        faults.append(Fault(place, "It does not take exactly one positional parameter.", cure))
        return
    except ValueError:
        return  # builtins without a signature; calling them will tell
    _check_annotation(function, said.point, place, faults)


def _check_annotation(
    function: Callable[..., Any], point: object, place: str, faults: list[Fault]
) -> None:
    """Note a parameter that is said to be the record of another point."""
    record = POINTS.get(str(point))
    try:
        told = typing.get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters), "")
    except Exception:  # boundary: annotations are an extension's code
        return
    kind = told.get(first)
    if record is None or not (inspect.isclass(kind) and issubclass(kind, HookEvent)):
        return
    if not issubclass(record, kind):
        what = f"It takes {kind.__name__}, and this point gives {record.__name__}."
        there = [name for name, one in POINTS.items() if one is kind]
        cure = f"Let it take {record.__name__}, or register it at {' or '.join(there)}."
        faults.append(Fault(place, what, cure))


def _check_options(said: HookDeclaration, place: str, faults: list[Fault]) -> None:
    timeout = said.timeout
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < cast("float", timeout) <= LONGEST_TIMEOUT:
        what = f"timeout is {str(timeout)[:40]!r}."
        cure = f"Give seconds, more than 0 and at most {LONGEST_TIMEOUT:g}."
        faults.append(Fault(place, what, cure))
    if not isinstance(said.on_error, str) or said.on_error not in ("fail", "ignore"):
        what = f"on_error is {str(said.on_error)[:40]!r}."
        faults.append(Fault(place, what, "Say 'fail' or 'ignore'."))
    if not isinstance(said.observes, bool):
        what = f"observes is {type(said.observes).__name__}."
        faults.append(Fault(place, what, "Say True or False."))


def _agents(
    said: HookDeclaration, agents: Mapping[str, AgentSpec], place: str, faults: list[Fault]
) -> tuple[str, ...] | None:
    if said.agents is None:
        return None
    names = listed(said.agents, "agents", place, faults)
    for name in names:
        if name not in agents:
            cure = f"{nearest(name, agents)}{known_or_none(agents, 'agents')}"
            faults.append(Fault(place, f"agents names {name!r}, which is no agent.", cure))
        elif agents[name].graph is not None and said.point not in OF_ANY_GRAPH:
            what = f"The agent {name!r} has a graph of its own, which does not come by this point."
            points = ", ".join(sorted(OF_ANY_GRAPH))
            faults.append(Fault(place, what, f"Take it off agents; it comes by {points}."))
    if isinstance(said.agents, list | tuple) and not names:
        what = "agents is empty, so that it would never be called."
        faults.append(Fault(place, what, "Name agents, or leave agents out for all of them."))
    return tuple(map(str, names))
