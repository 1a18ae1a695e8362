"""Health over HTTP (OPS-05). Needs no credential, asks no model provider."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Response

from api.errors import OPEN, describe
from api.health.schemas import Health, Live, PartOut, Ready
from api.route import GuardedRoute
from api.services import ServicesDep
from core.health import Part

router = APIRouter(prefix="/health", tags=["health"], route_class=GuardedRoute)

DOWN: Final = 503


@router.get(
    "",
    response_model=Health,
    responses={**describe(base=OPEN), DOWN: {"model": Health, "description": "A part is down."}},
)
async def health(services: ServicesDep, response: Response) -> Any:
    """Return every subsystem with cause and cure; 503 where one that is needed is down."""
    parts = await services.health()
    if any(part.needed and part.status == "down" for part in parts):
        status, response.status_code = "down", DOWN
    elif any(part.status in ("down", "degraded") for part in parts):
        status = "degraded"
    else:
        status = "ok"
    return {"status": status, "version": services.version, "parts": [_out(p) for p in parts]}


@router.get("/live", response_model=Live, responses=describe(base=OPEN))
async def live() -> Any:
    """Return 200 as long as the process answers."""
    return {"status": "ok"}


@router.get(
    "/ready",
    response_model=Ready,
    responses={**describe(base=OPEN), DOWN: {"model": Ready, "description": "No run can start."}},
)
async def ready(services: ServicesDep, response: Response) -> Any:
    """Return 200 only when a run could start: database, migrations, worker and a model."""
    missing = [p for p in await services.health() if p.needed and p.status in ("down", "off")]
    if missing:
        response.status_code = DOWN
    return {"ready": not missing, "missing": [_out(part) for part in missing]}


def _out(part: Part) -> PartOut:
    return PartOut(
        id=part.name,
        status=part.status,
        cause=part.cause,
        cure=part.cure,
        needed=part.needed,
        facts=dict(part.facts),
    )
