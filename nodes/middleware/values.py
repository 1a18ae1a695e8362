"""Values that middleware keep in the state: made fit to be stored, and built again when read.

Checkpoints hold messages and plain data; nothing else is ever built from stored bytes (case D13).
Models and data classes are therefore stored as what they consist of.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, NotRequired, Required, cast, get_args, get_origin
from uuid import UUID

from langchain_core.messages import BaseMessage
from langgraph.types import Overwrite
from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from core.text import DEEPEST, LARGEST, SMALLEST, clean

_STORED: Final = (bool, float, bytes, datetime, date, time, timedelta, UUID, Decimal)
_LISTS: Final = (list, tuple, set, frozenset, deque)


def plain(value: Any, depth: int = 0) -> Any:
    """Return a value as it can be stored.

    Raises:
        ValueError: it cannot.
    """
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")
    if value is None or isinstance(value, BaseMessage) or type(value) in _STORED:
        return value
    if isinstance(value, Enum | Overwrite):
        inside = plain(value.value, depth + 1)
        return Overwrite(inside) if isinstance(value, Overwrite) else inside
    if isinstance(value, str | int):
        return clean(value) if isinstance(value, str) else _whole(value)
    if isinstance(value, Mapping):
        fields = cast("Mapping[Any, Any]", value)
        return {plain(key, depth + 1): plain(one, depth + 1) for key, one in fields.items()}
    if type(value) in _LISTS:
        return type(value)(plain(one, depth + 1) for one in value)
    return _taken_apart(value, depth)


def rebuilt(kind: Any, value: Any) -> Any:
    """Return a stored value as the type that its field declares.

    Raises:
        Exception: it does not fit that type any more.
    """
    kind = _bare(kind)
    try:
        build = _builder(kind)
    except TypeError:  # types with annotations that have no hash
        build = _builder.__wrapped__(kind)
    return value if build is None else build(value)


# Helpers --------------------------------------------------------------------------------


def _whole(value: int) -> int:
    if not SMALLEST <= value <= LARGEST:
        raise ValueError("a whole number has more than 64 bits")
    return int(value)


def _taken_apart(value: Any, depth: int) -> Any:
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return plain(fields, depth + 1)
    raise ValueError(f"{type(value).__name__} is no plain data")


@functools.lru_cache(maxsize=256)
def _builder(kind: Any) -> Callable[[Any], Any] | None:
    """Return what builds values of a type; None for plain data."""
    if not _holds_models(kind):
        return None
    try:
        return TypeAdapter(kind).validate_python
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None


def _bare(kind: Any) -> Any:
    """Return a field's type without what is said about the field."""
    while get_origin(kind) in (Annotated, NotRequired, Required):
        kind = get_args(kind)[0]
    return kind


def _holds_models(kind: Any) -> bool:
    if isinstance(kind, type) and get_origin(kind) is None:
        made = issubclass(kind, BaseModel) and not issubclass(kind, BaseMessage)
        return made or dataclasses.is_dataclass(kind) or issubclass(kind, Enum)
    return any(_holds_models(one) for one in get_args(kind))
