"""Who may call a route: every route states one permission, checked before its body is read.

`who: ChatReader` in a route's signature is both the check and the statement; a test walks all
routes and fails for one that has neither this nor a place in `ANONYMOUS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from api.services import services_of
from core.errors import BadRequest, CrossSite, Forbidden, Unauthenticated
from core.principal import Permission, Principal

COOKIE: Final = "gw_session"
"""Name of the cookie that holds the opaque secret of a browser's session."""

ACT_FOR_HEADER: Final = "x-user-name"
ACT_FOR_QUERY: Final = "user_name"
"""Both name the user a service key acts for (IDENT-06); anybody else may only name themselves."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

ANONYMOUS: Final = (
    "/",
    "/health",
    "/health/",
    "/metrics",
    "/static/",
    "/login",
    "/login/",
    "/auth/",
    "/api/auth/",
    "/api/health/billing",
    "/docs",
    "/openapi.json",
)
"""Addresses that need no credential (OPS-15); those that end in `/` stand for all below them."""


@dataclass(frozen=True, slots=True)
class Require:
    """Marks a route with its permission and gives it the caller."""

    permission: Permission

    async def __call__(self, request: Request) -> Principal:
        """Return the caller; `GuardedRoute` has put it there already where it is used."""
        known: Principal | None = getattr(request.state, "principal", None)
        return known if known is not None else await authenticate(request, self.permission)


ChatReader = Annotated[Principal, Depends(Require(Permission.CHAT_READ))]
ChatWriter = Annotated[Principal, Depends(Require(Permission.CHAT_WRITE))]
PreferencesOwner = Annotated[Principal, Depends(Require(Permission.PREFERENCES))]
AgentsReader = Annotated[Principal, Depends(Require(Permission.AGENTS_READ))]
AgentsWriter = Annotated[Principal, Depends(Require(Permission.AGENTS_WRITE))]
KeyHolder = Annotated[Principal, Depends(Require(Permission.KEYS))]


def permission_of(dependant: Dependant) -> Permission | None:
    """Return the permission that a route states, or none."""
    for child in dependant.dependencies:
        if isinstance(child.call, Require):
            return child.call.permission
        if (found := permission_of(child)) is not None:
            return found
    return None


def is_anonymous(path: str) -> bool:
    """Tell whether this address needs no credential."""
    return any(
        path == at or (at != "/" and at.endswith("/") and path.startswith(at)) for at in ANONYMOUS
    )


async def authenticate(request: Request, permission: Permission) -> Principal:
    """Return who is calling, once it is clear that they may.

    Raises:
        Unauthenticated: no credential, or one that does not hold (any more).
        CrossSite: a cookie came along with a change that our own pages did not ask for.
        Forbidden: the credential lacks the permission, or names another user.
    """
    principal = await identify(request)
    if not principal.may(permission):
        raise Forbidden(details={"permission": permission.value})
    return await acting_for(request, principal, _named_user(request))


async def identify(request: Request) -> Principal:
    """Return whose credential this is. A key counts before a cookie.

    Raises:
        Unauthenticated: no credential, or one that does not hold (any more).
        CrossSite: a cookie came along with a change that our own pages did not ask for.
    """
    identity = services_of(request).identity
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise Unauthenticated("The header is `Authorization: Bearer <key>`.")
        return await identity.principal_of_key(secret.strip())
    cookie = request.cookies.get(COOKIE)
    if not cookie:
        raise Unauthenticated
    principal = await identity.principal_of_cookie(cookie)
    if request.method not in SAFE_METHODS:
        require_same_origin(request)
    return principal


async def acting_for(request: Request, principal: Principal, name: str | None) -> Principal:
    """Return the user that this call is for; `None` and one's own name change nothing.

    Raises:
        Forbidden: only a service key may name another user.
    """
    if name is None or name == principal.user_name:
        return principal
    return await services_of(request).identity.acting_for(principal, name)


def require_same_origin(request: Request) -> None:
    """Refuse a change that another site's page could have caused (CSRF).

    Browsers send `Sec-Fetch-Site`; old ones send `Origin` with every POST, PUT and DELETE.

    Raises:
        CrossSite: neither says that the request comes from our own pages.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site == "same-origin":
            return
        raise CrossSite
    origin = request.headers.get("origin")
    if origin is None or urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise CrossSite


def _named_user(request: Request) -> str | None:
    named = {
        name
        for name in (
            request.headers.get(ACT_FOR_HEADER),
            request.query_params.get(ACT_FOR_QUERY),
        )
        if name is not None
    }
    if len(named) > 1:
        raise BadRequest("The header and the query name different users.")
    return named.pop() if named else None
