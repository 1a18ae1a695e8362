"""Bodies and texts as they come from outside, refused where PostgreSQL or JSON could not keep them.

The standard JSON reader takes duplicate keys (the last wins), NaN and half surrogates, and the
form reader turns broken UTF-8 into other letters. All of that would be stored as something that
nobody sent, so it is refused here, before any route sees it.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, NoReturn, cast
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from core.errors import BadRequest, Invalid, TooLarge

JSON_BYTES: Final = 16 * 1024 * 1024
"""Largest JSON or plain form body."""
JSON_VALUES: Final = 200_000
"""Most values in one JSON body; more would hold up the event loop while they are read."""
JSON_DEPTH: Final = 64
"""Deepest nesting; the database driver's own encoder stops at about a thousand."""
FORM_FIELDS: Final = 50
FORM_FILES: Final = 20
FIELD_BYTES: Final = 4 * 1024 * 1024
"""Largest form field that is not a file."""

_LARGEST_INT: Final = 2**63 - 1


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    Raises:
        BadRequest: it is not JSON, or JSON that two readers understand differently.
        TooLarge: too many values.
        Invalid: a text or number that cannot be kept.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > JSON_VALUES * 2:
        raise TooLarge("The JSON body has too many values.")
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise BadRequest(
            f"The body is not JSON: {error.msg}.",
            details={"line": error.lineno, "column": error.colno},
        ) from error
    except RecursionError as error:
        raise BadRequest(f"The JSON body is nested deeper than {JSON_DEPTH} levels.") from error
    except ValueError as error:  # an integer of thousands of digits
        raise BadRequest("The JSON body has a number that is too long.") from error
    check_value(value)
    return value


def check_value(value: Any) -> None:
    """Refuse what cannot be kept: depth, NUL, half surrogates, numbers beyond 64 bits.

    Raises:
        BadRequest: nested too deeply.
        Invalid: a text or number that cannot be kept.
        TooLarge: too many values.
    """
    layer, depth, seen = [value], 0, 0
    while layer:
        depth += 1
        seen += len(layer)
        if depth > JSON_DEPTH:
            raise BadRequest(f"The JSON body is nested deeper than {JSON_DEPTH} levels.")
        if seen > JSON_VALUES:
            raise TooLarge("The JSON body has too many values.")
        below: list[Any] = []
        for item in layer:
            _check_item(item, below)
        layer = below


def check_text(text: str, where: str = "A text") -> None:
    """Refuse characters that PostgreSQL or UTF-8 cannot hold.

    Raises:
        Invalid: it holds NUL or half a surrogate pair.
    """
    if "\x00" in text:
        raise Invalid(f"{where} contains the character NUL.")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Invalid(f"{where} contains half of a surrogate pair.") from error


def check_query(raw: bytes) -> None:
    """Refuse a query string that is not UTF-8 or holds NUL.

    Raises:
        BadRequest: it is not UTF-8.
        Invalid: it holds NUL.
    """
    if not raw:
        return
    try:
        check_text(unquote_to_bytes(raw).decode("utf-8"), "The query")
    except UnicodeDecodeError as error:
        raise BadRequest("The query is not UTF-8.") from error


def parse_urlencoded(body: bytes) -> FormData:
    """Return the fields of a plain HTML form.

    Raises:
        BadRequest: it is not UTF-8, or has too many fields.
    """
    try:
        pairs: list[tuple[str, str | UploadFile]] = list(
            parse_qsl(
                body.decode("utf-8"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=FORM_FIELDS,
            )
        )
    except UnicodeDecodeError as error:
        raise BadRequest("The form is not UTF-8.") from error
    except ValueError as error:
        raise BadRequest("The form has too many fields.") from error
    return checked_form(FormData(pairs))


async def parse_multipart(headers: Headers, stream: Any) -> FormData:
    """Return fields and files; large files go to a temporary file while they come.

    Raises:
        BadRequest: broken, not UTF-8, or too many parts.
        TooLarge: a field above `FIELD_BYTES`.
    """
    parser = _Utf8MultiPart(
        headers,
        stream,
        max_files=FORM_FILES,
        max_fields=FORM_FIELDS,
        max_part_size=FIELD_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if error.message.startswith("Part exceeded"):
            raise TooLarge(f"A form field is larger than {FIELD_BYTES} bytes.") from error
        raise BadRequest(f"The form cannot be read: {error.message}") from error
    except UnicodeDecodeError as error:
        raise BadRequest("The form is not UTF-8.") from error
    try:
        return checked_form(form)
    except (BadRequest, Invalid):
        await form.close()
        raise


def checked_form(form: FormData) -> FormData:
    """Return the form where every text can be kept and no field but files comes twice.

    Raises:
        BadRequest: a text field comes twice; which one counts would be a guess.
        Invalid: a text that cannot be kept.
    """
    seen: set[str] = set()
    for name, value in form.multi_items():
        check_text(name, "A field's name")
        if isinstance(value, str):
            check_text(value, "A field")
            if name in seen:
                raise BadRequest("A form field comes twice.", details={"field": name[:100]})
            seen.add(name)
        elif value.filename:
            check_text(value.filename, "A file's name")
    return form


# Helpers ----------------------------------------------------------------------------------


class _Utf8MultiPart(MultiPartParser):
    """Refuses broken UTF-8; the library would read it as Latin-1."""

    def on_part_end(self) -> None:
        part = self._current_part
        if part.file is None:
            part.data.decode(self._charset or "utf-8")
        super().on_part_end()

    def on_headers_finished(self) -> None:
        (self._current_part.content_disposition or b"").decode("utf-8")
        super().on_headers_finished()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadRequest("The JSON body has an object with the same key twice.")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequest(f"{name} is not JSON.")


def _check_item(item: Any, below: list[Any]) -> None:
    if isinstance(item, str):
        check_text(item)
    elif isinstance(item, bool):
        return
    elif isinstance(item, int):
        if not -_LARGEST_INT <= item <= _LARGEST_INT:
            raise Invalid("A number does not fit into 64 bits.")
    elif isinstance(item, float):
        if not isfinite(item):
            raise Invalid("A number is too large.")
    elif isinstance(item, dict):
        entries = cast("dict[str, Any]", item)
        for key in entries:
            check_text(key, "A key")
        below.extend(entries.values())
    elif isinstance(item, list):
        below.extend(cast("list[Any]", item))
