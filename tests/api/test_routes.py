"""The walk over ALL routes: each states a permission, refuses strangers, hides what is foreign."""

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from api.security import ANONYMOUS, is_anonymous, permission_of
from core.ids import new_id
from tests.api.conftest import Guest
from tests.api.test_edge import assert_error
from tests.support.app import Served, chat

BODIES: dict[str, dict[str, Any]] = {
    "POST /api/chat": {"data": {"message": "hi", "session_id": "{session_id}"}},
    "POST /api/chat/resume": {
        "json": {
            "session_id": "{session_id}",
            "interrupt_token": "x",
            "decisions": [{"type": "approve"}],
        }
    },
    "PUT /api/sessions/{session_id}/pin": {"json": {"pinned": True}},
    "PUT /api/sessions/{session_id}/title": {"json": {"title": "stolen"}},
    "PUT /api/sessions/{session_id}/mode": {"json": {"mode": "plan"}},
    "PUT /api/messages/{message_id}/feedback": {"json": {"feedback": "up"}},
    "PUT /api/preferences": {"json": {"text": "x"}},
    "POST /api/keys": {"json": {"name": "x"}},
}
"""Valid bodies of all routes that take one; a new route without a row fails the walk."""

QUERIES: dict[str, dict[str, str]] = {
    "GET /api/chat/interrupt": {"session_id": "{session_id}"},
    "GET /api/sessions/search": {"q": "hi"},
}
"""Queries that routes need."""

SHARED = {"GET /api/agents/{name}/graph"}
"""Routes whose ids are everybody's."""


def operations(house: Served) -> list[tuple[str, str, dict[str, Any]]]:
    """Return method, path and description of every operation of OpenAPI."""
    paths = house.product.app.openapi()["paths"]
    return [
        (method.upper(), path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
    ]


def filled(value: Any, ids: dict[str, str]) -> Any:
    """Return a copy in which `{name}` is the id of that name."""
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], value)
    return value


def request_of(method: str, path: str, operation: dict[str, Any], ids: dict[str, str]):
    """Return what to send for a well formed request."""
    name = f"{method} {path}"
    options = filled(BODIES.get(name, {}), ids)
    if "requestBody" in operation:
        assert options, f"{name} takes a body but has no row in BODIES"
    if name in QUERIES:
        options["params"] = filled(QUERIES[name], ids)
    return filled(path, ids), options


def names_an_id(method: str, path: str) -> bool:
    name = f"{method} {path}"
    mentioned = f"{path} {BODIES.get(name)} {QUERIES.get(name)}"
    return name not in SHARED and re.search(r"\{\w+_id\}", mentioned) is not None


@pytest.mark.req("IDENT-05", "OPS-15")
def test_every_route_states_a_permission_or_is_on_the_list(house: Served):
    unstated = []
    routes: list[BaseRoute] = house.product.app.routes
    seen = 0
    for context in iter_route_contexts(routes):
        path = context.path
        seen += 1
        dependant = getattr(context, "dependant", None)
        stated = dependant is not None and permission_of(dependant) is not None
        if not stated and not is_anonymous(path + ("/" if path == "/static" else "")):
            unstated.append(path)
        assert not (stated and is_anonymous(path)), f"{path} is on the list and asks for more"
    assert seen >= len(operations(house))
    assert unstated == []


@pytest.mark.req("OPS-15")
def test_the_list_of_anonymous_addresses_is_the_promised_one_and_no_other():
    promised = [
        "/", "/health*", "/metrics", "/static/*", "/login*", "/auth/*", "/api/auth/*",
        "/api/health/billing", "/docs", "/openapi.json",
    ]  # fmt: skip
    assert {at.rstrip("/") or "/" for at in ANONYMOUS} == {
        at.rstrip("*").rstrip("/") or "/" for at in promised
    }
    for path in (
        "/api",
        "/api/sessions",
        "/healthy",
        "/loginx",
        "/docs/x",
        "/static",
        "/api/authx",
    ):
        assert not is_anonymous(path)


@pytest.mark.req("IDENT-05", "OPS-13")
async def test_a_stranger_gets_401_from_every_route_that_is_not_on_the_list(house: Served):
    ids = dict.fromkeys(
        ("session_id", "run_id", "message_id", "tool_call_id", "key_id", "name"), new_id()
    )
    async with house.anonymous() as client:
        for method, path, operation in operations(house):
            at, options = request_of(method, path, operation, ids)
            answer = await client.request(method, at, **options)
            if is_anonymous(path):
                assert answer.status_code < 400, (method, path, answer.text)
                assert operation["security"] == []
            else:
                assert_error(answer, 401, "unauthenticated")
                assert operation["security"]
                assert operation["x-permission"]


@pytest.mark.req("IDENT-05", "P14", "Z01", "CHAT-12")
async def test_another_users_ids_are_as_unknown_as_made_up_ones(house: Served, guest: Guest):
    reply = await chat(guest.client, "calculate 17 * 23")
    assert reply.status == 200, reply.body
    history = (await guest.client.get(f"/api/chat/history/{reply.session_id}")).json()
    key = (await guest.client.post("/api/keys", json={"name": "x"})).json()
    foreign = {
        "session_id": reply.session_id,
        "run_id": reply.run_id,
        "message_id": history["items"][0]["id"],
        "tool_call_id": "call_1",
        "key_id": key["id"],
        "name": "x",
    }
    made_up = {name: new_id() for name in foreign}
    before = await everything(guest, reply)
    walked = 0
    async with house.client(await house.key_of("stranger")) as stranger:
        for method, path, operation in operations(house):
            if is_anonymous(path) or not names_an_id(method, path):
                continue
            walked += 1
            at, options = request_of(method, path, operation, foreign)
            answer = await stranger.request(method, at, **options)
            error = assert_error(answer, 404, "not_found")
            at, options = request_of(method, path, operation, made_up)
            unknown = assert_error(await stranger.request(method, at, **options), 404, "not_found")
            assert error == unknown, f"{method} {path} tells that it exists"
    assert walked >= 18
    assert await everything(guest, reply) == before


async def everything(guest: Guest, reply) -> list[Any]:
    """Return all that the walk could have changed."""
    paths = [
        f"/api/chat/history/{reply.session_id}",
        f"/api/sessions/{reply.session_id}",
        f"/api/sessions/{reply.session_id}/runs",
        "/api/keys",
        "/api/preferences",
    ]
    found = [(await guest.client.get(path)).json() for path in paths]
    for key in found[3]["items"]:
        key.pop("last_used_at")
    return found


@pytest.mark.req("IDENT-05", "CHAT-12")
@pytest.mark.parametrize(
    "junk", ["x", "1", "..", "%00", "%FF", "' OR 1=1", "a" * 5_000, "{", "null"]
)
async def test_what_is_no_id_is_not_found(house: Served, guest: Guest, junk: str):
    ids = dict.fromkeys(("session_id", "run_id", "message_id", "key_id"), junk)
    ids |= {"tool_call_id": "x", "name": "x"}
    for method, path, operation in operations(house):
        if is_anonymous(path) or "_id}" not in path:
            continue
        at, options = request_of(method, path, operation, ids)
        answer = await guest.client.request(method, at, **options)
        assert answer.status_code in (404, 405), (method, at, answer.text)
        assert answer.json()["error"]["code"] in ("not_found", "method_not_allowed")


@pytest.mark.req("OPS-13")
def test_every_operation_describes_itself_and_every_failure(house: Served):
    description = house.product.app.openapi()
    for method, path, operation in operations(house):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        assert operation["tags"], where
        responses = operation["responses"]
        assert {"400", "422", "500", "503"} <= set(responses), where
        if operation["security"]:
            assert {"401", "403"} <= set(responses), where
        if "{" in path:
            assert "404" in responses, where
        if "requestBody" in operation:
            assert {"413", "415"} <= set(responses), where
        for status, response in responses.items():
            assert response["description"], (where, status)
            if status >= "400" and "text/html" not in response["content"]:
                content = response["content"]["application/json"]
                assert content["schema"], (where, status)
                if status not in ("503",) or "examples" in content:
                    for example in content["examples"].values():
                        assert set(example["value"]) == {"error"}
    assert "HTTPValidationError" not in description["components"]["schemas"]


@pytest.mark.req("OPS-13", "CHAT-06")
def test_the_description_has_every_event_with_the_fields_of_every_frame(house: Served):
    shapes = house.product.app.openapi()["components"]["schemas"]
    mapping = shapes["Frame"]["discriminator"]["mapping"]
    assert len(mapping) >= 20
    for kind, ref in mapping.items():
        shape = shapes[ref.rpartition("/")[2]]
        assert shape["properties"]["type"]["const"] == kind
        assert {"type", "session_id", "run_id", "seq"} <= set(shape["required"])
        assert "trace_id" in shape["properties"]


def test_all_routes_use_the_guarded_route(house: Served):
    from api.route import GuardedRoute

    for context in iter_route_contexts(house.product.app.routes):
        route = context.original_route
        if isinstance(route, APIRoute):
            assert isinstance(route, GuardedRoute), context.path
