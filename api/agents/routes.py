"""Agents and models over HTTP: what there is, and what an agent's graph looks like."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import PlainTextResponse

from api.agents.schemas import Agent, Model
from api.errors import describe
from api.route import GuardedRoute
from api.schemas import Page
from api.security import AgentsReader
from api.services import ServicesDep
from core.errors import NotFound
from core.ports import ModelHandle

router = APIRouter(prefix="/api", tags=["agents"], route_class=GuardedRoute)


@router.get("/agents", response_model=Page[Agent], responses=describe())
async def list_agents(who: AgentsReader, services: ServicesDep) -> Any:
    """Return the agents, the default one first."""
    return {"items": services.agents.list()}


@router.get(
    "/agents/{name}/graph",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "The graph as Mermaid text.",
            "content": {"text/plain": {"example": "graph TD; prepare --> call_model;"}},
        },
        **describe(NotFound),
    },
)
async def agent_graph(
    name: Annotated[str, Path(max_length=200)],
    who: AgentsReader,
    services: ServicesDep,
) -> PlainTextResponse:
    """Return an agent's graph as Mermaid text."""
    return PlainTextResponse(await services.agents.graph(name))


@router.get("/models", response_model=Page[Model], responses=describe())
async def list_models(who: AgentsReader, services: ServicesDep) -> Any:
    """Return the models that can be asked for, the default one first."""
    handles = [services.models.get(name) for name in services.models.names()]
    items = [shown_model(handle, default=index == 0) for index, handle in enumerate(handles)]
    return {"items": items}


def shown_model(handle: ModelHandle, *, default: bool) -> dict[str, Any]:
    """Return what everybody may know of a model; its address and key are not among it."""
    return {
        "id": handle.name,
        "provider": handle.provider,
        "context_window": handle.context_window,
        "max_output": handle.max_output,
        "demo": handle.is_demo,
        "default": default,
    }
