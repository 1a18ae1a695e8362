"""Graphs that extensions registered whole, as agents; every fault with its cure."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from core.declared import texts
from core.errors import Fault
from core.masking import mask
from core.registry import SubgraphDeclaration
from core.tooling import AgentSpec
from runtime.naming import ALLOWED, well_formed
from tools.input_shape import shape_of

SHAPES = "Pass a pydantic model, a TypedDict (of typing_extensions) or a JSON schema of an object."


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
        elif (agent := _agent(said, place, faults)) is not None:
            found[said.name] = agent
    return found


def _agent(said: SubgraphDeclaration, place: str, faults: list[Fault]) -> AgentSpec | None:
    shape = None
    if said.input_schema is not None:
        try:
            shape = shape_of(said.input_schema)
        except (TypeError, ValueError) as error:
            faults.append(Fault(place, f"input_schema cannot be used: {error}", SHAPES))
            return None
    words = texts({"description": said.description, "label": said.label}, place, faults)
    graph = _built(said, place, faults)
    if graph is None:
        return None
    return AgentSpec(
        name=said.name,
        label=words["label"] or said.name,
        description=words["description"],
        prompt="",
        tools=(),
        graph=graph,
        shape=shape,
        delegate_only="messages" not in graph.channels or "messages" not in graph.output_channels,
    )


def _built(said: SubgraphDeclaration, place: str, faults: list[Fault]) -> Any:
    if not callable(said.build) or inspect.iscoroutinefunction(said.build):
        what = "build is no plain function."
        faults.append(Fault(place, what, "Pass a function without arguments that returns a graph."))
        return None
    # Only a start with such graphs pays for LangGraph's import.
    from graphs.foreign import built

    try:
        return built(said.build, shaped=said.input_schema is not None)
    except Exception as error:  # boundary: an extension's code; all faults are told together
        what = f"The graph cannot be built: {mask(f'{type(error).__name__}: {error}')}"
        cure = (
            "build() takes no argument and returns a StateGraph whose state has `messages`, or "
            "pass input_schema. To ask the user, a node calls interrupt(…)."
        )
        faults.append(Fault(place, what, cure))
        return None
