"""What the product is put together from, over HTTP (EXT-11)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from api.agents.routes import shown_model
from api.errors import describe
from api.model.schemas import ModelSummary, ToolGroup
from api.route import GuardedRoute
from api.schemas import Page
from api.security import AgentsReader, AgentsWriter
from api.services import Services, ServicesDep

router = APIRouter(prefix="/api/model", tags=["model"], route_class=GuardedRoute)


@router.get("", response_model=ModelSummary, responses=describe())
async def get_model(who: AgentsReader, services: ServicesDep) -> Any:
    """Return the default model, and the extensions, services and agents that were loaded."""
    return _summary(services)


@router.get("/tools", response_model=Page[ToolGroup], responses=describe())
async def list_tools(who: AgentsReader, services: ServicesDep) -> Any:
    """Return all tools by group."""
    return {"items": services.agents.tool_groups()}


@router.post("/reload", response_model=ModelSummary, responses=describe())
async def reload_model(who: AgentsWriter, services: ServicesDep) -> Any:
    """Build agents and tools anew from the loaded definitions; running work keeps the old ones.

    No code is imported again and no service is started anew: that takes a restart. Only the
    process that answers is concerned.
    """
    await services.agents.reload()
    return _summary(services)


# Helpers ----------------------------------------------------------------------------------


def _summary(services: Services) -> dict[str, Any]:
    default = services.models.get(None)
    return {"model": shown_model(default, default=True), "agent": services.agents.summary()}
