"""Every failure leaves as one JSON shape, from one place; the shapes are described in OpenAPI."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final, Literal, Union, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, create_model
from starlette.exceptions import HTTPException

from core.errors import (
    BadRequest,
    Forbidden,
    GraphwrightError,
    Invalid,
    MethodNotAllowed,
    NotFound,
    ServerFault,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from core.log import get_logger
from core.masking import mask

log = get_logger(__name__)

RETRY_SECONDS: Final = 5.0
"""What a 429 says when the error itself does not know better."""

FIELDS_SHOWN: Final = 20
"""So many wrong fields are named; the rest is counted."""

OPEN: Final = (BadRequest, Invalid, ServerFault, Unavailable)
"""What any route may answer."""

GUARDED: Final = (*OPEN, Unauthenticated, Forbidden)
"""What any route with a permission may answer; `Forbidden` stands for `CrossSite` too."""

BODY: Final = (TooLarge, UnsupportedMediaType)
"""What any route with a body may answer besides."""

_BY_STATUS: Final = {
    kind.status: kind
    for kind in (
        BadRequest,
        Unauthenticated,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        TooLarge,
        UnsupportedMediaType,
        Invalid,
    )
}


def install(app: FastAPI) -> None:
    """Let the application answer with our shape whatever fails."""
    app.add_exception_handler(GraphwrightError, _known)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def response_of(error: GraphwrightError) -> JSONResponse:
    """Return the answer for an error, with `Retry-After` where waiting helps."""
    headers: dict[str, str] = {}
    if error.status == HTTPStatus.TOO_MANY_REQUESTS and error.retry_after is None:
        error.retry_after = RETRY_SECONDS
    if error.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.body(), status_code=error.status, headers=headers)


def describe(
    *errors: type[GraphwrightError],
    base: Sequence[type[GraphwrightError]] = GUARDED,
) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI `responses` for what a route may answer beside success.

    Args:
        errors: what this route raises itself.
        base: what comes from around it; `OPEN` for anonymous routes, `(*GUARDED, *BODY)` with
            a body.
    """
    by_status: dict[int | str, list[type[GraphwrightError]]] = {}
    for kind in (*errors, *base):
        kinds = by_status.setdefault(kind.status, [])
        if kind not in kinds:
            kinds.append(kind)
    return {status: _response(tuple(kinds)) for status, kinds in sorted(by_status.items(), key=str)}


# Handlers ---------------------------------------------------------------------------------


async def _known(_: Request, error: Exception) -> JSONResponse:
    known = cast("GraphwrightError", error)
    if known.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request failed", extra={"kv": {"code": known.code, "why": known.message}})
    return response_of(known)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    faults = cast("RequestValidationError", error).errors()
    fields = [
        {"field": _place(fault["loc"]), "problem": _short(str(fault["msg"]), 300)}
        for fault in faults[:FIELDS_SHOWN]
    ]
    details: dict[str, Any] = {"fields": fields}
    if len(faults) > FIELDS_SHOWN:
        details["more"] = len(faults) - FIELDS_SHOWN
    where = ", ".join(field["field"] for field in fields[:3])
    return response_of(Invalid(f"Not allowed: {where}.", details=details))


async def _http(_: Request, error: Exception) -> JSONResponse:
    http = cast("HTTPException", error)
    kind = _BY_STATUS.get(http.status_code)
    if kind is NotFound:
        answer = response_of(NotFound("There is nothing at this address; see /docs."))
    elif kind is not None:
        answer = response_of(kind())
    else:
        phrase = HTTPStatus(http.status_code).phrase
        body: dict[str, Any] = {
            "code": f"http_{http.status_code}",
            "message": phrase,
            "details": {},
        }
        answer = JSONResponse({"error": body}, status_code=http.status_code)
    answer.headers.update(http.headers or {})
    return answer


# Helpers ----------------------------------------------------------------------------------


def _place(loc: Sequence[int | str]) -> str:
    """Return where a fault is, without `body` in front and without another's long key."""
    parts = [str(part) for part in loc]
    if len(parts) > 1:
        parts = parts[1:]
    return _short(".".join(_short(part, 60) for part in parts[:8]), 200)


def _short(text: str, longest: int) -> str:
    safe = mask(text[:1000].encode("utf-8", "replace").decode("utf-8"))
    return safe if len(safe) <= longest else f"{safe[:longest]}…"


@cache
def _response(kinds: tuple[type[GraphwrightError], ...]) -> dict[str, Any]:
    models = tuple(_model(kind) for kind in kinds)
    examples = {kind.__name__: {"value": kind().body()} for kind in kinds}
    return {
        "model": models[0] if len(models) == 1 else Union[models],  # noqa: UP007 - made at run time
        "description": " Or: ".join(kind().message for kind in kinds),
        "content": {"application/json": {"examples": examples}},
    }


@cache
def _model(kind: type[GraphwrightError]) -> type[BaseModel]:
    codes = tuple(sorted({kind.code} | {child.code for child in kind.__subclasses__()}))
    inner = create_model(
        f"{kind.__name__}Info",
        code=(cast("Any", Literal[codes]), ...),
        message=(str, Field(examples=[kind().message])),
        details=(dict[str, Any], Field(default_factory=dict)),
        retry_after=(float | None, Field(default=None, description="Seconds to wait.")),
    )
    return create_model(f"{kind.__name__}Body", __doc__=kind().message, error=(inner, ...))
