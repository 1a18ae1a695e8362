"""What extensions bring besides tools, agents and services; checked together with those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from core.errors import Fault
from core.registry import Registry
from core.tooling import AgentSpec
from runtime.components import components_of
from runtime.hooking import hooks_of
from runtime.policing import check_agents, policies_of
from runtime.providing import providers_of


def brought_by(
    registry: Registry, agents: Mapping[str, AgentSpec], faults: list[Fault]
) -> dict[str, Any]:
    """Return fields of the assembly by name, and note everything wrong.

    Args:
        registry: what the extensions registered.
        agents: all agents that passed their checks.
        faults: gets what is wrong.
    """
    policies = policies_of(registry.policies, faults)
    places = {said.name: f"{said.where}: agent {said.name!r}" for said in registry.agents}
    broken = {(str(said.kind), str(said.name)) for said in registry.policies} - set(policies)
    chosen = [(agent, places[name]) for name, agent in agents.items() if agent.policies]
    check_agents(chosen, policies, frozenset(broken), faults)
    return {
        "components": components_of(registry.components, faults),
        "policies": policies,
        "model_providers": providers_of(registry.model_providers, faults),
        "hooks": hooks_of(registry.hooks, agents, faults),
    }


def policies_in(options: dict[str, Any], place: str, faults: list[Fault]) -> dict[str, Any]:
    """Return an agent's options with its policies as a mapping of names.

    Who names a completion review wants the review.
    """
    given: object = options.get("policies", {})
    if not isinstance(given, Mapping):
        cure = 'Write policies={"summarisation": "name"}.'
        faults.append(Fault(place, "policies is no mapping of kinds to names.", cure))
        return {key: value for key, value in options.items() if key != "policies"}
    named = {str(kind): str(name) for kind, name in cast("Mapping[Any, Any]", given).items()}
    kept = options | {"policies": named}
    return kept | {"review": True} if "completion_review" in named else kept
