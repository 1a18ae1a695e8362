"""The route that all of `/api` uses: caller first, then query and body, strictly, then the handler.

FastAPI reads and parses a body before any dependency runs, so that a stranger could make the
server work through fifty megabytes. Here nothing is read before the caller is known.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn, cast

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.params import Form
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, UploadFile

from api.parsing import (
    JSON_BYTES,
    check_query,
    parse_json,
    parse_multipart,
    parse_urlencoded,
)
from api.security import ACT_FOR_QUERY, authenticate, permission_of
from core.errors import BadRequest, Invalid, TooLarge, UnsupportedMediaType

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
JSON: Final = "application/json"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def also_form(*json_fields: str) -> Callable[[Handler | Any], Any]:
    """Let a JSON route take forms as well; `json_fields` hold JSON as text."""

    def mark(endpoint: Any) -> Any:
        endpoint.json_fields = frozenset(json_fields)
        return endpoint

    return mark


class GuardedRoute(APIRoute):
    """Checks caller, query and body before the handler of the route runs."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        permission = permission_of(self.dependant)
        stated = {"x-permission": permission.value} if permission else {}
        self.openapi_extra = {**(self.openapi_extra or {}), **stated}

    def get_route_handler(self) -> Handler:
        """Return the handler with the checks in front."""
        inner = super().get_route_handler()
        permission = permission_of(self.dependant)
        known = _query_names(self.dependant) | {ACT_FOR_QUERY}
        form = self.body_field is not None and isinstance(self.body_field.field_info, Form)
        json_fields: frozenset[str] | None = getattr(self.endpoint, "json_fields", None)

        async def handle(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if permission is not None:
                strict.state.principal = await authenticate(strict, permission)
            check_query(strict.scope["query_string"])
            _check_names(strict, known)
            try:
                if form:
                    await strict.load_form()
                elif self.body_field is not None:
                    strict = await strict.load_json(json_fields)
                return await inner(strict)
            finally:
                await strict.close()

        return handle


class StrictRequest(Request):
    """A request whose body was read and checked by `api.parsing`."""

    _loaded: Any = None

    async def load_form(self) -> None:
        """Read a form; a JSON object of texts is taken for one.

        Raises:
            UnsupportedMediaType: it is none of the three.
        """
        kind = self._media_type()
        if kind == MULTIPART:
            self._form = await parse_multipart(self.headers, self.stream())
        elif kind == FORM:
            self._form = parse_urlencoded(await self._read())
        elif kind == JSON:
            self._form = FormData(_texts(parse_json(await self._read())))
        else:
            await self._refuse(f"Send {MULTIPART}, {FORM} or {JSON}.")

    async def load_json(self, json_fields: frozenset[str] | None) -> StrictRequest:
        """Read a JSON body, or a form where `json_fields` are named; return what to go on with.

        Raises:
            UnsupportedMediaType: it is something else.
        """
        kind = self._media_type()
        if kind == JSON:
            self._loaded = parse_json(await self._read())
            return self
        if json_fields is None or kind not in (FORM, MULTIPART):
            await self._refuse(f"Send {JSON}.")
        if kind == FORM:
            form = parse_urlencoded(await self._read())
        else:
            form = await parse_multipart(self.headers, self.stream())
        self._form = form
        # FastAPI looks at the header again before it takes the value for JSON.
        headers = [pair for pair in self.scope["headers"] if pair[0] != b"content-type"]
        headers.append((b"content-type", JSON.encode()))
        twin = StrictRequest({**self.scope, "headers": headers}, self.receive)
        twin._form = form
        twin._loaded = _object_of(form, json_fields)
        return twin

    async def body(self) -> bytes:
        """Return something that is not empty; FastAPI asks `json` for the value."""
        return b"-"

    async def json(self) -> Any:
        """Return the value that was read."""
        return self._loaded

    async def _refuse(self, cure: str) -> NoReturn:
        """Say what is wrong: no body at all, or one of another kind."""
        if "content-type" not in self.headers and not await self._read():
            raise Invalid(f"This request needs a body. {cure}")
        raise UnsupportedMediaType(cure)

    def _media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def _read(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in self.stream():
            size += len(part)
            if size > JSON_BYTES:
                raise TooLarge(f"This body may have at most {JSON_BYTES} bytes.")
            parts.append(part)
        return b"".join(parts)


# Helpers ----------------------------------------------------------------------------------


def _query_names(dependant: Dependant) -> frozenset[str]:
    names = {field.alias for field in dependant.query_params}
    for child in dependant.dependencies:
        names |= _query_names(child)
    return frozenset(names)


def _check_names(request: Request, known: frozenset[str]) -> None:
    """Refuse unknown and repeated query names: a filter that is ignored would be a lie."""
    names = [name for name, _ in request.query_params.multi_items()]
    unknown = sorted({name[:60] for name in names if name not in known})
    if unknown:
        raise Invalid(
            "The query has a name that this address does not know.",
            details={"unknown": unknown[:10], "known": sorted(known)},
        )
    if len(set(names)) != len(names):
        raise BadRequest("The query has a name twice.")


def _texts(value: Any) -> list[tuple[str, str | UploadFile]]:
    if not isinstance(value, dict):
        raise Invalid("The body must be a JSON object.")
    entries = cast("Mapping[str, Any]", value)
    fields: list[tuple[str, str | UploadFile]] = []
    for name, item in entries.items():
        if isinstance(item, str):
            fields.append((name, item))
        elif item is not None:
            raise Invalid("Not allowed.", details={"fields": [_must_be_text(name)]})
    return fields


def _must_be_text(name: str) -> dict[str, str]:
    return {"field": name[:60], "problem": "Must be a text."}


def _object_of(form: FormData, json_fields: frozenset[str]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name, item in form.multi_items():
        if not isinstance(item, str):
            raise Invalid("Files are not taken here.", details={"field": name[:60]})
        value[name] = parse_json(item.encode()) if name in json_fields else item
    return value
