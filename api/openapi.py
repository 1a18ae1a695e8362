"""Completes the OpenAPI description: credentials, event frames, other kinds of body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api.chat.schemas import ChatFields
from api.route import FORM, JSON, MULTIPART
from core.events import EVENT_ADAPTER
from core.principal import Permission

DESCRIPTION: Final = (
    "Runs LangGraph agents for people and programs. Programs send an API key as "
    "`Authorization: Bearer gwk_…`; browsers hold a cookie. Errors are always "
    '`{"error": {"code", "message", "details"}}`. Lists are `{"items", "next_cursor"}`.'
)

_REF: Final = "#/components/schemas/{model}"

_SCHEMES: Final = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, `gwk_<prefix>_<secret>`.",
    },
    "browser": {
        "type": "apiKey",
        "in": "cookie",
        "name": "gw_session",
        "description": "Set by the one-time link; changes must come from our own pages.",
    },
}

_COMMON: Final = {
    "session_id": {"type": "string", "format": "uuid"},
    "run_id": {"type": "string", "format": "uuid"},
    "seq": {"type": "integer", "minimum": 1, "description": "1, 2, 3 … per run."},
    "trace_id": {"type": "string"},
}


def install(app: FastAPI) -> None:
    """Let the application describe itself completely; the description is made once."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = describe


# Helpers ----------------------------------------------------------------------------------


def _build(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
    )
    components = schema.setdefault("components", {})
    components["securitySchemes"] = _SCHEMES
    shapes = components.setdefault("schemas", {})
    shapes.update(_frames())
    shapes.update(_shapes_of_chat())
    for operation in _operations(schema):
        _add_security(operation)
        _add_bodies(operation)
        _put_errors_under_json(operation)
    return schema


def _operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in schema["paths"].values():
        yield from methods.values()


def _add_security(operation: dict[str, Any]) -> None:
    permission: Permission | None = operation.get("x-permission")
    operation["security"] = [] if permission is None else [{"apiKey": []}, {"browser": []}]


def _add_bodies(operation: dict[str, Any]) -> None:
    """Name the other kinds of body that the route takes."""
    shape: str | None = operation.pop("x-also-takes", None)
    if shape is None:
        return
    content = operation["requestBody"]["content"]
    other = {"schema": {"$ref": _REF.format(model=shape)}}
    if JSON in content:
        encoding = {name: {"contentType": JSON} for name in ("decisions", "answers")}
        for kind in (FORM, MULTIPART):
            content[kind] = other | {"encoding": encoding}
    else:
        content[JSON] = content[FORM] = other


def _put_errors_under_json(operation: dict[str, Any]) -> None:
    """Mend that FastAPI describes errors under the media type of the route's success."""
    for response in operation["responses"].values():
        content: dict[str, Any] = response.get("content", {})
        described = content.get(JSON)
        if described is None or "schema" in described:
            continue
        for kind in [kind for kind in content if kind != JSON]:
            described["schema"] = content.pop(kind)["schema"]


def _frames() -> dict[str, Any]:
    """Return the schemas of events, each with the fields that every frame has."""
    union = EVENT_ADAPTER.json_schema(mode="serialization", ref_template=_REF)
    shapes: dict[str, Any] = union.pop("$defs")
    events = {ref["$ref"].rpartition("/")[2] for ref in union["oneOf"]}
    for name in events:
        shape = shapes[name]
        shape["properties"] = {"type": shape["properties"].pop("type"), **_COMMON} | shape[
            "properties"
        ]
        required = [field for field in shape.get("required", []) if field != "type"]
        shape["required"] = ["type", "session_id", "run_id", "seq", *required]
    union["description"] = "One `data:` line of an event stream."
    return {**shapes, "Frame": union}


def _shapes_of_chat() -> dict[str, Any]:
    _, definitions = models_json_schema([(ChatFields, "validation")], ref_template=_REF)
    shapes: dict[str, Any] = definitions["$defs"]
    return shapes
