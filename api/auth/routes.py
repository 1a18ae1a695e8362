"""Signing in and out. Anonymous by nature; every decision is in `identity.service`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from api.auth.pages import LINK_SPENT, SIGN_IN
from api.auth.schemas import Me
from api.errors import OPEN, describe
from api.route import GuardedRoute
from api.security import COOKIE, identify, require_same_origin
from api.services import Services, ServicesDep
from core.errors import CrossSite, Unauthenticated

router = APIRouter(tags=["auth"], route_class=GuardedRoute)

_HTML: Final = {"content": {"text/html": {"schema": {"type": "string"}}}}


@router.get(
    "/login",
    response_class=HTMLResponse,
    responses={
        200: {"description": "A page that says how to get a link.", **_HTML},
        303: {"description": "Signed in; goes to the workbench."},
        401: {"description": "The link was used already or is too old.", **_HTML},
        **describe(base=OPEN),
    },
)
async def login(
    request: Request,
    services: ServicesDep,
    token: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Spend the one-time link of the terminal: sets the cookie and goes to the workbench."""
    if token is None:
        return HTMLResponse(SIGN_IN)
    if _is_preview(request):
        # A browser that loads ahead of a click must not spend the link.
        return HTMLResponse(SIGN_IN)
    try:
        value = await services.identity.enter(token)
    except Unauthenticated:
        return HTMLResponse(LINK_SPENT, status_code=401)
    answer = RedirectResponse("/", status_code=303)
    _set_cookie(answer, value, request, services)
    return answer


@router.post("/auth/logout", status_code=204, responses=describe(CrossSite, base=OPEN))
async def logout(request: Request, services: ServicesDep) -> Response:
    """End this browser's session on the server and take the cookie away."""
    value = request.cookies.get(COOKIE)
    if value:
        require_same_origin(request)
        await services.identity.leave(value)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")
    return answer


@router.get("/api/auth/me", response_model=Me, responses=describe(base=OPEN))
async def me(request: Request) -> Any:
    """Return who is calling, or that nobody is signed in."""
    try:
        who = await identify(request)
    except Unauthenticated:
        return {"signed_in": False}
    return {
        "signed_in": True,
        "id": who.user_id,
        "user_name": who.user_name,
        "workspace_id": who.workspace_id,
        "via": who.via,
        "permissions": sorted(who.permissions),
    }


# Helpers ----------------------------------------------------------------------------------


def _is_preview(request: Request) -> bool:
    purpose = request.headers.get("sec-purpose", request.headers.get("purpose", ""))
    return "prefetch" in purpose or "preview" in purpose


def _set_cookie(answer: Response, value: str, request: Request, services: Services) -> None:
    # Lax, so that the link works from a terminal in a browser too; changes need more (CSRF).
    answer.set_cookie(
        COOKIE,
        value,
        max_age=services.settings.login_days * 86_400,
        path="/",
        httponly=True,
        secure=request.url.scheme == "https",
        samesite="lax",
    )
