"""Routes of extensions: checked before the start, then mounted behind the same door as ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts

from api.errors import BODY, GUARDED, describe
from api.route import GuardedRoute
from api.security import permission_of
from core.errors import Fault, NotFound
from core.registry import RouterDeclaration

PREFIX: Final = "/api/ext"

_KEPT: Final = (
    "response_model", "status_code", "dependencies", "summary", "description",
    "response_description", "deprecated", "response_model_include", "response_model_exclude",
    "response_model_by_alias", "response_model_exclude_unset", "response_model_exclude_defaults",
    "response_model_exclude_none", "include_in_schema", "response_class", "name", "openapi_extra",
)  # fmt: skip
"""What a route keeps of what its author said about it."""


def faults_of(declarations: Sequence[RouterDeclaration]) -> list[Fault]:
    """Return everything that is wrong with the routers of extensions."""
    faults: list[Fault] = []
    taken: set[tuple[str, str, str]] = set()
    for said in declarations:
        if not isinstance(said.router, APIRouter):
            what = f"register_router was given {type(said.router).__name__}, not an APIRouter."
            cure = "Pass a fastapi.APIRouter."
            faults.append(Fault(said.where, what, cure))
            continue
        for context in iter_route_contexts(said.router.routes):
            faults += _faults_of_route(said, context, taken)
    return faults


def mount(app: FastAPI, declarations: Sequence[RouterDeclaration]) -> None:
    """Put the routes of extensions under `/api/ext/<name>`, with our checks in front."""
    for said in declarations:
        name = said.extension
        guarded = APIRouter(
            prefix=f"{PREFIX}/{name}", tags=[f"extension {name}"], route_class=GuardedRoute
        )
        for context in iter_route_contexts(said.router.routes):
            _add(guarded, context)
        app.include_router(guarded)


# Helpers ----------------------------------------------------------------------------------


def _faults_of_route(
    said: RouterDeclaration, context: RouteContext, taken: set[tuple[str, str, str]]
) -> Iterator[Fault]:
    path = context.path or ""
    if not isinstance(context.original_route, APIRoute):
        what = f"{path!r} is no plain HTTP route."
        yield Fault(said.where, what, "Use router.get, router.post and so on.")
        return
    for method in sorted(context.methods or ()):
        place = f"{said.where}: {method} {path}"
        if permission_of(context.dependant) is None:
            cure = "Add a parameter such as `who: AgentsReader`, from extensions.routing."
            yield Fault(place, "This route states no permission.", cure)
        if (said.extension, method, path) in taken:
            yield Fault(place, "This route is there twice.", "Remove one of the two.")
        taken.add((said.extension, method, path))


def _add(router: APIRouter, context: RouteContext) -> None:
    has_body = context.body_field is not None
    described = describe(
        *((NotFound,) if "{" in (context.path or "") else ()),
        base=(*GUARDED, *BODY) if has_body else GUARDED,
    )
    kept: dict[str, Any] = {name: getattr(context, name) for name in _KEPT}
    assert context.endpoint is not None
    router.add_api_route(
        context.path or "",
        context.endpoint,
        methods=sorted(context.methods or ()),
        responses={**described, **context.responses},
        **kept,
    )
