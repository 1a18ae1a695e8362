"""What PostgreSQL refuses in text is replaced here, once, on the way to every connection.

`context()` gives the adaptation that all our connections share: text and JSON without NUL and
lone surrogates (PostgreSQL accepts neither in `text` nor in `jsonb`; case L25), JSON by orjson.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any, Final, cast

import orjson
import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.string import StrBinaryDumper, StrDumper, StrDumperUnknown, StrDumperVarchar

from core.text import clean

MAX_DEPTH: Final = 200
"""Levels of lists and objects; below them stands a mark instead of the value."""

TOO_DEEP: Final = "[nested too deeply]"
"""The mark."""


def clean_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a copy of JSON-like data that PostgreSQL accepts, whatever a model sent."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict | list | tuple):
        return _clean_container(cast("Any", value), depth) if depth else TOO_DEEP
    return value


def _clean_container(value: Any, depth: int) -> Any:
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {clean(str(key)): clean_json(item, depth - 1) for key, item in items}
    return [clean_json(item, depth - 1) for item in cast("list[Any]", value)]


def storable(value: Any) -> tuple[Any, bytes]:
    """Return the value as it will be read back, and its encoding.

    The usual case costs one orjson call and one search for an escaped NUL, and returns the very
    value; otherwise what cannot be stored is replaced in a copy. Nothing is ever refused.
    """
    try:
        encoded = orjson.dumps(value)
    except TypeError:
        # Lone surrogates, integers beyond 64 bit, keys that are no text, or very deep data.
        cleaned = clean_json(value)
        return cleaned, json.dumps(cleaned, ensure_ascii=False).encode()
    if b"\\u0000" in encoded:
        cleaned = clean_json(value)
        return cleaned, orjson.dumps(cleaned)
    return value, encoded


def dump_json(value: Any) -> bytes:
    """Encode for a `json` or `jsonb` column."""
    return storable(value)[1]


def _clean_bytes(text: str) -> bytes:
    if "\x00" not in text:
        try:
            return text.encode()
        except UnicodeEncodeError:
            pass
    return clean(text).encode()


class _Unknown(StrDumperUnknown):
    def dump(self, obj: str) -> bytes:
        return _clean_bytes(obj)


class _Text(StrDumper):
    def dump(self, obj: str) -> bytes:
        return _clean_bytes(obj)


class _Varchar(StrDumperVarchar):
    def dump(self, obj: str) -> bytes:
        return _clean_bytes(obj)


class _Binary(StrBinaryDumper):
    def dump(self, obj: str) -> bytes:
        return _clean_bytes(obj)


@cache
def adapters() -> AdaptersMap:
    """Return the adaptation shared by all connections of this process."""
    ours = AdaptersMap(psycopg.adapters)
    for dumper in (_Binary, _Varchar, _Text, _Unknown):  # the last one is the default
        ours.register_dumper(str, dumper)
    context = _Context(ours)
    set_json_dumps(dump_json, context)
    set_json_loads(orjson.loads, context)
    return ours


class _Context:
    """The smallest thing psycopg takes as a place to find adapters."""

    connection = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters = adapters


def context() -> Any:
    """Return what `psycopg.connect(..., context=)` takes."""
    return _Context(adapters())
