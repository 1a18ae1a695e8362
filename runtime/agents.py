"""The agents that can be talked to, and the graph of each (EXEC-01)."""

from __future__ import annotations

import asyncio
from typing import Any

from core.errors import NotFound
from core.registry import Assembly
from core.tooling import AgentSpec
from runtime.preload import graphs_loaded
from runtime.workshop import approval_tools


class Agents:
    """Reads the assembly for people."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

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

    def _shown(self, agent: AgentSpec) -> dict[str, Any]:
        return {
            "id": agent.name,
            "label": agent.label,
            "description": agent.description,
            "tools": list(agent.tools),
            "approval_tools": sorted(approval_tools(self._assembly, agent)),
            "default": agent.name == self._assembly.default_agent,
        }
