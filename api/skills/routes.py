"""Skills over HTTP: what there is, and what is wrong with those that cannot be used (SKILL-01)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from api.errors import describe
from api.route import GuardedRoute
from api.schemas import Page
from api.security import AgentsReader
from api.services import ServicesDep
from api.skills.schemas import Skill

router = APIRouter(prefix="/api", tags=["skills"], route_class=GuardedRoute)


@router.get("/skills", response_model=Page[Skill], responses=describe())
async def list_skills(who: AgentsReader, services: ServicesDep) -> Any:
    """Return your skills by name; broken ones say what is wrong and what mends it."""
    return {"items": await services.skills.list(who)}
