"""API keys over HTTP (IDENT-03). No decisions here; see `identity.service`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response

from api.errors import BODY, GUARDED, describe
from api.keys.schemas import Key, KeyBody, NewKey
from api.route import GuardedRoute
from api.schemas import Page, PathId
from api.security import KeyHolder
from api.services import ServicesDep
from core.errors import NotFound

router = APIRouter(prefix="/api/keys", tags=["keys"], route_class=GuardedRoute)


@router.get("", response_model=Page[Key], responses=describe())
async def list_keys(who: KeyHolder, services: ServicesDep) -> Any:
    """Return your keys, newest first, revoked ones too."""
    return {"items": await services.identity.list_keys(who)}


@router.post("", status_code=201, response_model=NewKey, responses=describe(base=(*GUARDED, *BODY)))
async def create_key(body: KeyBody, who: KeyHolder, services: ServicesDep) -> Any:
    """Make a key. Its text is in this answer and nowhere else."""
    record, text = await services.identity.create_key(
        who, body.name, permissions=body.permissions, days=body.days, service=body.service
    )
    return asdict(record) | {"key": text}


@router.delete("/{key_id}", status_code=204, responses=describe(NotFound))
async def revoke_key(key_id: PathId, who: KeyHolder, services: ServicesDep) -> Response:
    """Withdraw a key; it is refused everywhere within five seconds, open streams included."""
    await services.identity.revoke_key(who, key_id)
    return Response(status_code=204)
