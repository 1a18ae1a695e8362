"""Puts the HTTP application together: routes, errors, and what surrounds every request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.middleware import Middleware

import api.agents.routes
import api.auth.routes
import api.chat.routes
import api.health.routes
import api.keys.routes
import api.messages.routes
import api.model.routes
import api.pages.routes
import api.preferences.routes
import api.runs.routes
import api.sessions.routes
import api.skills.routes
from api import errors, ext, openapi, sse
from api.middleware import BodyLimit, Edge, HostGuard
from api.services import Services
from core.registry import RouterDeclaration

AREAS: Final = (
    api.chat.routes,
    api.runs.routes,
    api.sessions.routes,
    api.messages.routes,
    api.preferences.routes,
    api.agents.routes,
    api.skills.routes,
    api.model.routes,
    api.keys.routes,
    api.auth.routes,
    api.health.routes,
    api.pages.routes,
)

MEGABYTE: Final = 1024 * 1024


def create_app(services: Services, routers: Sequence[RouterDeclaration] = ()) -> FastAPI:
    """Return the application. It opens nothing and starts nothing; the server does that.

    Args:
        services: what the routes stand on.
        routers: routes of extensions, checked by `api.ext.faults_of`.
    """
    settings = services.settings
    upload_limit = (settings.max_upload_mb + 1) * MEGABYTE  # one more for the other fields
    app = FastAPI(
        title="Graphwright",
        version=services.version,
        description=openapi.DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        # Outermost first.
        middleware=[
            Middleware(Edge, clock=services.clock),
            Middleware(HostGuard, host=settings.host),
            Middleware(BodyLimit, limit=upload_limit),
        ],
    )
    sse.begin()
    app.state.services = services
    errors.install(app)
    openapi.install(app)
    for area in AREAS:
        app.include_router(area.router)
    ext.mount(app, routers)
    if services.static.is_dir():
        app.mount("/static", StaticFiles(directory=services.static), name="static")
    return app
