"""Which agents may give tasks to which: every fault of `delegates=[…]` with its cure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, cast

from core.errors import Fault
from core.registry import AgentDeclaration, Registry, ToolDeclaration
from core.tooling import DECLARATION, DELEGATE, AgentSpec, ToolSpec
from runtime.naming import known_or_none, listed, nearest
from tools.delegating import delegate


def with_delegate(declaration: AgentDeclaration, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return an agent's tools, with `delegate` where it may delegate."""
    wanted = _wants(declaration.options.get("delegates"))
    return (*names, DELEGATE) if wanted and DELEGATE not in names else names


def _wants(given: object) -> bool:
    return isinstance(given, list | tuple) and len(cast("list[Any]", given)) > 0


def with_delegates(
    registry: Registry,
    offered: Iterable[ToolDeclaration],
    agents: Mapping[str, AgentSpec],
    tools: Mapping[str, ToolSpec],
    faults: list[Fault],
) -> dict[str, AgentSpec]:
    """Return the agents, each with those that it may give tasks to.

    Args:
        registry: what the extensions' `setup` collected.
        offered: every function that is offered as a tool.
        agents: all of them, graphs of extensions too.
        tools: those that passed.
        faults: gets what is wrong.
    """
    _check_kinds(offered, faults)
    found = dict(agents)
    for said in registry.agents:
        place = f"{said.where}: agent {said.name!r}"
        given: Any = said.options.get("delegates")
        wanted = _wants(given)
        given = () if given is None else given
        names = _checked(said.name, given, place, agents, faults)
        if not wanted and said.name in found and DELEGATE in found[said.name].tools:
            what = f"tools names {DELEGATE!r}, and this agent has nobody to delegate to."
            faults.append(Fault(place, what, "Name them: delegates=[…]; the tool comes with them."))
        if wanted and DELEGATE not in tools:
            what = f"delegates needs the tool {DELEGATE!r}, which is not there."
            faults.append(Fault(place, what, "Load the extension `core`, which brings it."))
        if said.name in found:
            found[said.name] = dataclasses.replace(found[said.name], delegates=names)
    return found


def _check_kinds(offered: Iterable[ToolDeclaration], faults: list[Fault]) -> None:
    """Note tools that say they are the one that delegates."""
    for said in offered:
        declared: object = getattr(said.function, DECLARATION, None)
        known: Mapping[str, object] = {}
        if isinstance(declared, Mapping):
            known = cast("Mapping[str, object]", declared)
        kind = known.get("kind")
        if isinstance(kind, str) and kind == DELEGATE and said.function is not delegate:
            what = f"A tool says kind={DELEGATE!r}, which only the built-in one is."
            name = getattr(said.function, "__name__", "?")
            faults.append(Fault(f"{said.where}: {name}", what, "Leave kind out."))


def _checked(
    name: str,
    wanted: Any,
    place: str,
    agents: Mapping[str, AgentSpec],
    faults: list[Fault],
) -> tuple[str, ...]:
    names: list[str] = []
    others = [other for other in agents if other != name]
    for item in listed(wanted, "delegates", place, faults):
        if item == name:
            what = "delegates names the agent itself."
            faults.append(Fault(place, what, "Take it out: an agent cannot delegate to itself."))
        elif item not in agents:
            what = f"delegates names {item!r}, which is no registered agent."
            cure = f"{nearest(item, others)}{known_or_none(others, 'agents')}"
            faults.append(Fault(place, what, cure))
        elif item not in names:
            names.append(item)
    return tuple(names)
