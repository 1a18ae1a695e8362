"""Graphs that extensions registered whole, as agents; every fault with its cure."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import Fault
from core.registry import SubgraphDeclaration
from core.tooling import AgentSpec
from runtime.naming import ALLOWED, well_formed


def subgraphs_of(
    declared: Sequence[SubgraphDeclaration],
    agents: Mapping[str, AgentSpec],
    faults: list[Fault],
) -> dict[str, AgentSpec]:
    """Return the registered graphs as agents, each built once.

    Args:
        declared: what the extensions registered.
        agents: those that have taken their names already.
        faults: gets what is wrong.
    """
    found: dict[str, AgentSpec] = {}
    for said in declared:
        place = f"{said.where}: subgraph {said.name!r}"
        if not well_formed(said.name):
            faults.append(Fault(place, "This name is not allowed.", ALLOWED))
        elif said.name in agents or said.name in found:
            what = f"There is an agent {said.name!r} already."
            faults.append(Fault(said.where, what, "Give yours another name: the first argument."))
        elif (graph := _built(said, place, faults)) is not None:
            found[said.name] = AgentSpec(
                name=said.name,
                label=said.label or said.name,
                description=said.description,
                prompt="",
                tools=(),
                graph=graph,
            )
    return found


def _built(said: SubgraphDeclaration, place: str, faults: list[Fault]) -> Any:
    if not callable(said.build) or inspect.iscoroutinefunction(said.build):
        what = "build is no plain function."
        faults.append(Fault(place, what, "Pass a function without arguments that returns a graph."))
        return None
    # Only a start with such graphs pays for LangGraph's import.
    from graphs.foreign import built

    try:
        return built(said.build)
    except Exception as error:  # boundary: an extension's code; all faults are told together
        what = f"The graph cannot be built: {type(error).__name__}: {error}"
        cure = (
            "build() takes no argument and returns a StateGraph whose state has `messages`. "
            "To ask the user, a node calls interrupt(…)."
        )
        faults.append(Fault(place, what, cure))
        return None
