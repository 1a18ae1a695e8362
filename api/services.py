"""What the routes stand on, built by the server and handed in once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from core.clock import Clock
from core.health import Part
from core.ports import Models
from core.settings import Settings
from identity.service import Identity
from runtime.agents import Agents
from runtime.preferences import Preferences
from runtime.runs import Runs
from runtime.sessions import Sessions
from runtime.skills import Skills


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a route may use."""

    settings: Settings
    clock: Clock
    identity: Identity
    runs: Runs
    sessions: Sessions
    preferences: Preferences
    agents: Agents
    skills: Skills
    models: Models
    health: Callable[[], Awaitable[Sequence[Part]]]
    """Asks every part how it does; never a model provider."""
    static: Path
    """Folder of the built workbench."""
    version: str


def services_of(request: Request) -> Services:
    """Return the services of the application that serves this request."""
    services: Services = request.app.state.services
    return services


async def _services(request: Request) -> Services:
    return services_of(request)


ServicesDep = Annotated[Services, Depends(_services)]
"""Hands a route its services."""
