"""The agents that can be talked to, the graph of each, and what they were built from."""

from __future__ import annotations

import asyncio
from typing import Any

from core.errors import ConfigError, Invalid, NotFound
from core.hooks import HookSpec
from core.log import get_logger
from core.registry import Assembly
from core.tooling import AgentSpec, ToolSpec
from runtime.middleware import equipped
from runtime.preload import graphs_loaded
from runtime.services import Services
from runtime.workshop import approval_tools

log = get_logger(__name__)


class Agents:
    """Reads the assembly for people."""

    def __init__(self, assembly: Assembly, services: Services) -> None:
        self._assembly, self._services = assembly, services

    def equip(self) -> None:
        """Make each agent's middleware, now that services run.

        Raises:
            ConfigError: a factory fails.
        """
        self._assembly.become(equipped(self._assembly, self._services.only))

    def list(self) -> list[dict[str, Any]]:
        """Return the agents, the default one first."""
        default = self._assembly.default_agent
        agents = sorted(self._assembly.agents.values(), key=lambda one: one.name != default)
        return [self._shown(agent) for agent in agents]

    async def graph(self, name: str) -> str:
        """Return an agent's graph as Mermaid text.

        Raises:
            NotFound: there is no such agent.
        """
        agent = self._assembly.agents.get(name)
        if agent is None:
            raise NotFound
        await graphs_loaded()
        from graphs.agent import mermaid

        # Drawing takes a while and needs nothing of the loop.
        return await asyncio.to_thread(mermaid, agent)

    def summary(self) -> dict[str, Any]:
        """Return what was put together: names and their order, never what they hold."""
        assembly = self._assembly
        return {
            "default_agent": assembly.default_agent,
            "agents": self.list(),
            "extensions": assembly.extensions,
            "disabled_extensions": assembly.disabled_extensions,
            "services": [
                {"name": one.name, "extension": one.extension, "requires": one.requires}
                for one in assembly.services
            ],
            "middleware": [
                {
                    "name": one.name,
                    "extension": one.extension,
                    "targets": one.targets,
                    "requires": one.requires,
                    "harmless": one.harmless,
                }
                for one in assembly.middleware
            ],
            "tools": len(assembly.tools),
            "components": [
                {
                    "component_type": one.component_type,
                    "label": one.label,
                    "description": one.description,
                    "extension": one.extension,
                    "schema": one.schema,
                    "example": one.example,
                }
                for one in assembly.components.values()
            ],
            "policies": [
                {
                    "kind": one.kind,
                    "name": one.name,
                    "extension": one.extension,
                    "fingerprint": one.fingerprint,
                }
                for one in assembly.policies.values()
            ],
            "model_providers": [
                {"name": one.name, "extension": one.extension} for one in assembly.model_providers
            ],
            "hooks": [_shown_hook(one) for one in assembly.hooks],
        }

    def tool_groups(self) -> list[dict[str, Any]]:
        """Return the tools by group, groups and tools in the order of their names."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for _, tool in sorted(self._assembly.tools.items()):
            groups.setdefault(tool.group, []).append(self._shown_tool(tool))
        return [{"group": group, "tools": groups[group]} for group in sorted(groups)]

    async def reload(self) -> None:
        """Build everything anew from what the extensions registered at the start.

        Raises:
            Invalid: something is wrong now; what there was stays.
        """
        try:
            # Schemas are made for every tool, which takes a while.
            fresh = await asyncio.to_thread(self._rebuilt)
        except ConfigError as error:
            faults = [
                {"where": fault.where, "what": fault.what, "cure": fault.cure}
                for fault in error.faults
            ]
            message = "The definitions have faults; what was loaded before stays."
            raise Invalid(message, details={"faults": faults}) from error
        self._assembly.become(fresh)
        log.info("definitions reloaded", extra={"kv": {"agents": sorted(fresh.agents)}})

    # Helpers ----------------------------------------------------------------------------

    def _rebuilt(self) -> Assembly:
        return equipped(self._assembly.rebuild(), self._services.only)

    def _shown(self, agent: AgentSpec) -> dict[str, Any]:
        return {
            "id": agent.name,
            "label": agent.label,
            "description": agent.description,
            "tools": list(agent.tools),
            "approval_tools": sorted(approval_tools(self._assembly, agent)),
            "delegates": list(agent.delegates),
            "delegate_only": agent.delegate_only,
            "policies": dict(agent.policies),
            "default": agent.name == self._assembly.default_agent,
            "middleware": [one.name for one in agent.middleware.members]
            if agent.middleware
            else [],
            "holds_back": agent.middleware is not None and agent.middleware.holds_back,
        }

    def _shown_tool(self, tool: ToolSpec) -> dict[str, Any]:
        agents = self._assembly.agents.values()
        return {
            "name": tool.name,
            "label": tool.label,
            "description": tool.description,
            "extension": tool.extension,
            "requires_approval": tool.name in self._assembly.approval_tools,
            "side_effect": tool.side_effect,
            "idempotent": tool.idempotent,
            "timeout": tool.timeout,
            "kind": tool.kind,
            "requires": tool.requires,
            "agents": sorted(agent.name for agent in agents if tool.name in agent.tools),
        }


def _shown_hook(hook: HookSpec) -> dict[str, Any]:
    return {
        "name": hook.name,
        "point": hook.point,
        "extension": hook.extension,
        "timeout": hook.timeout,
        "on_error": hook.on_error,
        "agents": hook.agents,
        "observes": hook.observes,
        "fingerprint": hook.fingerprint,
    }
