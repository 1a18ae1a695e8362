"""The workbench's first page and the description of the API for people."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from api.pages.docs import STYLE, render
from api.route import GuardedRoute
from api.services import ServicesDep

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
_DOCS_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

_NOT_BUILT: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Graphwright</title>'
    "<h1>Graphwright</h1><p>The workbench is not built: static/index.html is missing. "
    'The API works all the same; see <a href="/docs">/docs</a>.</p></html>'
)


@router.get("/")
async def workbench(services: ServicesDep) -> Response:
    """Return the workbench."""
    page = services.static / "index.html"
    if not page.is_file():
        return HTMLResponse(_NOT_BUILT)
    return FileResponse(page, media_type="text/html", headers={"Cache-Control": "no-cache"})


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Return the API's description as one page, without scripts or anything from elsewhere."""
    page = render(request.app.openapi())
    return HTMLResponse(page, headers={"Content-Security-Policy": _DOCS_POLICY})
