"""Opaque marks of a place in a list, so that paging neither skips nor repeats rows."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import orjson

from core.errors import BadRequest

Value = str | int | bool | datetime

_MAX_LENGTH = 1000
_INT_RANGE = 2**63


def encode_cursor(kind: str, values: Sequence[Value]) -> str:
    """Return the text that stands for the place after the row with these sort values."""
    payload = orjson.dumps([_plain(value) for value in values])
    return base64.urlsafe_b64encode(_check(kind, payload) + payload).decode().rstrip("=")


def decode_cursor(kind: str, text: str, types: Sequence[type]) -> list[Any]:
    """Return the sort values, of the given types.

    Raises:
        BadRequest: the text is not a cursor of this list.
    """
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError("too long")
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        check, payload = raw[:4], raw[4:]
        if check != _check(kind, payload):
            raise ValueError("changed")
        values = cast("list[Any]", orjson.loads(payload))
        if len(values) != len(types):
            raise ValueError("wrong length")
        return [_typed(value, wanted) for value, wanted in zip(values, types, strict=True)]
    except (ValueError, TypeError) as error:
        raise BadRequest("This cursor does not belong to this list.") from error


def _check(kind: str, payload: bytes) -> bytes:
    return hashlib.sha256(kind.encode() + b"\x00" + payload).digest()[:4]


def _plain(value: Value) -> str | int | bool:
    return value.isoformat() if isinstance(value, datetime) else value


def _typed(value: Any, wanted: type) -> Any:
    if wanted is datetime:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("no zone")
        return moment
    if type(value) is not wanted:
        raise TypeError("wrong type")
    if wanted is int and not -_INT_RANGE <= value < _INT_RANGE:
        raise ValueError("out of range")
    return value
