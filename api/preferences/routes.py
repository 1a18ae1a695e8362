"""User preferences over HTTP (CHAT-27)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from api.errors import BODY, GUARDED, describe
from api.preferences.schemas import PreferencesBody, PreferencesOut
from api.route import GuardedRoute
from api.security import PreferencesOwner
from api.services import ServicesDep

router = APIRouter(prefix="/api/preferences", tags=["preferences"], route_class=GuardedRoute)


@router.get("", response_model=PreferencesOut, responses=describe())
async def get_preferences(who: PreferencesOwner, services: ServicesDep) -> Any:
    """Return your preferences."""
    return {"id": who.user_id, "text": await services.preferences.get(who) or ""}


@router.put("", response_model=PreferencesOut, responses=describe(base=(*GUARDED, *BODY)))
async def put_preferences(
    body: PreferencesBody, who: PreferencesOwner, services: ServicesDep
) -> Any:
    """Replace your preferences; they count from the next turn on."""
    await services.preferences.put(who, body.text)
    return {"id": who.user_id, "text": body.text}


@router.delete("", status_code=204, responses=describe())
async def delete_preferences(who: PreferencesOwner, services: ServicesDep) -> Response:
    """Forget your preferences."""
    await services.preferences.delete(who)
    return Response(status_code=204)
