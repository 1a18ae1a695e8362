"""Schemas of components: which ones are safe to take, and whether data fit one (ART-11).

A part of JSON Schema that says everything by itself: closed objects, no address outside, no
regular expression, bounded in size and depth. So checking data takes a bounded time, and what a
card is drawn from holds nothing that its author did not declare.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from core.text import clean_value, unfit

SCHEMA_SIZE: Final = 32_000
"""Characters of a schema."""
SCHEMA_DEPTH: Final = 12
"""Levels that objects and lists of the data may lie inside each other."""
DATA_SIZE: Final = 64_000
"""Characters of the data of one component."""

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_PROSE: Final = frozenset({"title", "description", "default", "examples", "$schema"})
_LIMITS: Final = frozenset({"minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"})
_KNOWN: Final = (
    _PROSE
    | _LIMITS
    | {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "$ref"}
)
_REF: Final = "#/$defs/"
_STEP: Final = " → "
_LONGEST_WAY: Final = 4 * SCHEMA_DEPTH
"""Levels and references on the way to any part: what is longer could not be walked."""

Schema = Mapping[str, Any]


class Misfit(Exception):
    """Data do not fit a schema; the text says where and why."""


def as_json(value: object) -> Any:
    """Return a copy of what an author wrote down, as it looks once it is JSON.

    Raises:
        Misfit: it is no JSON, or cannot be stored.
    """
    try:
        copied: Any = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise Misfit("it is no JSON") from None
    if wrong := unfit(copied):
        raise Misfit(f"it cannot be stored: {wrong}")
    return clean_value(copied)


def faults_of(schema: object) -> list[str]:
    """Return why a schema cannot be taken; empty where it can. It is plain JSON (`as_json`)."""
    if not isinstance(schema, dict):
        return ["it is no JSON object"]
    whole = cast("dict[str, Any]", schema)
    size = len(json.dumps(whole))
    if size > SCHEMA_SIZE:
        return [f"it has {size} characters; {SCHEMA_SIZE} are allowed"]
    parts: object = whole.get("$defs", {})
    if not isinstance(parts, dict):
        return ["$defs is no JSON object"]
    if whole.get("type") != "object":
        return ["its type is not object"]
    rest = {key: value for key, value in whole.items() if key != "$defs"}
    known = cast("Schema", parts)
    found = list(_faults(rest, known, "the schema"))
    for name, part in known.items():
        found += _faults(part, known, f"{_REF}{name}")
    if not found and _levels(rest, known, {}) > SCHEMA_DEPTH:
        found.append(f"it is nested more than {SCHEMA_DEPTH} levels deep, or in a circle")
    return found


def _faults(schema: object, parts: Schema, at: str) -> Iterator[str]:
    """Give what is wrong with a part and those inside it; what it refers to is looked at once."""
    # Each level adds a name to the place, so that no schema within its size recurses too deeply.
    if at.count(_STEP) > SCHEMA_DEPTH:
        yield f"it is nested more than {SCHEMA_DEPTH} levels deep, or in a circle"
        return
    if not isinstance(schema, dict):
        yield f"{at} is no JSON object"
        return
    part = cast("Schema", schema)
    for word in sorted(set(part) - _KNOWN):
        yield f"{at} uses {word[:40]!r}; allowed are {', '.join(sorted(_KNOWN))}"
    yield from _value_faults(part, at)
    kind: object = part.get("type")
    if "$ref" in part:
        yield from _reference_faults(part, parts, at)
    elif (not isinstance(kind, str) or kind not in _TYPES) and (
        kind is not None or not {"enum", "const"} & set(part)
    ):
        yield f"{at} has no type of {', '.join(sorted(_TYPES))}"
    elif kind == "object":
        yield from _object_faults(part, parts, at)
    elif kind == "array":
        yield from _faults(part.get("items"), parts, f"{at}{_STEP}items")


def _reference_faults(part: Schema, parts: Schema, at: str) -> Iterator[str]:
    target: object = part["$ref"]
    if not isinstance(target, str) or target.removeprefix(_REF) not in parts:
        yield f"{at} refers to {str(target)[:80]!r}, which is not one of its $defs"
    elif not target.startswith(_REF):
        yield f"{at} refers to {target[:80]!r}: write {_REF}<name>"
    if beside := sorted(set(part) - _PROSE - {"$ref"}):
        yield f"{at} has {beside[0]!r} beside $ref, where it would not be looked at"


def _value_faults(part: Schema, at: str) -> Iterator[str]:
    for word in sorted(_LIMITS & set(part)):
        if not _TYPES["number"](part[word]):
            yield f"{word} of {at} is no number"
    values: object = part.get("enum", [part.get("const")])
    if not isinstance(values, list):
        yield f"enum of {at} is no list"
    elif any(isinstance(one, dict | list) for one in cast("list[Any]", values)):
        yield f"{at} lists values that are objects or lists"


def _object_faults(part: Schema, parts: Schema, at: str) -> Iterator[str]:
    if part.get("additionalProperties") is not False:
        yield f'{at} is open: write "additionalProperties": false'
    properties: object = part.get("properties")
    if not isinstance(properties, dict):
        yield f"{at} has no properties"
        return
    fields = cast("Schema", properties)
    required: object = part.get("required", [])
    if not isinstance(required, list) or any(
        not isinstance(one, str) or one not in fields for one in cast("list[Any]", required)
    ):
        yield f"required of {at} is no list of its properties"
    for name, field in fields.items():
        yield from _faults(field, parts, f"{at}{_STEP}{name[:40].replace(_STEP, ' ')}")


def _levels(part: Schema, parts: Schema, known: dict[str, float], above: int = 0) -> float:
    """Return how deep its data may lie, infinitely in a circle; each definition counts once."""
    if above > _LONGEST_WAY:
        return math.inf
    if "$ref" in part:
        name = str(part["$ref"]).removeprefix(_REF)
        if name not in known:
            known[name] = math.inf
            known[name] = _levels(parts[name], parts, known, above + 1)
        return known[name]
    inner: list[Schema] = []
    if part.get("type") == "object":
        inner = list(part["properties"].values())
    elif part.get("type") == "array":
        inner = [part["items"]]
    return 1 + max((_levels(one, parts, known, above + 1) for one in inner), default=0)


# Data -------------------------------------------------------------------------------------


def check(schema: Schema, data: Any) -> None:
    """Check JSON data against a schema that passed `faults_of`.

    Raises:
        Misfit: they do not fit, or are too large.
    """
    try:
        size = len(json.dumps(data, allow_nan=False, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        raise Misfit("the data are no JSON") from None
    if size > DATA_SIZE:
        raise Misfit(f"the data have {size} characters; {DATA_SIZE} are allowed")
    _check(schema, cast("Schema", schema.get("$defs") or {}), data, "the data")


def _check(part: Schema, parts: Schema, value: Any, at: str) -> None:
    if "$ref" in part:
        _check(parts[str(part["$ref"]).removeprefix(_REF)], parts, value, at)
        return
    kind = part.get("type")
    if kind is not None and not _TYPES[str(kind)](value):
        raise Misfit(f"{at} is no {kind}")
    if "enum" in part and not any(_same(value, one) for one in part["enum"]):
        raise Misfit(f"{at} is none of {json.dumps(part['enum'], ensure_ascii=False)[:200]}")
    if "const" in part and not _same(value, part["const"]):
        raise Misfit(f"{at} is not {json.dumps(part['const'], ensure_ascii=False)[:200]}")
    _check_limits(part, value, at)
    if kind == "object":
        _check_object(part, parts, value, at)
    elif kind == "array":
        for index, one in enumerate(value):
            _check(part["items"], parts, one, f"{at}[{index}]")


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _check_limits(part: Schema, value: Any, at: str) -> None:
    if isinstance(value, str):
        _check_range(part, ("minLength", "maxLength"), len(value), f"the length of {at}")
    elif isinstance(value, list):
        size = len(cast("Sequence[Any]", value))
        _check_range(part, ("minItems", "maxItems"), size, f"the number of items of {at}")
    elif _TYPES["number"](value):
        _check_range(part, ("minimum", "maximum"), value, at)


def _check_range(part: Schema, names: tuple[str, str], value: float, at: str) -> None:
    low, high = part.get(names[0], -math.inf), part.get(names[1], math.inf)
    if not low <= value <= high:
        raise Misfit(f"{at} is {value}, not between {low} and {high}")


def _check_object(part: Schema, parts: Schema, value: Mapping[str, Any], at: str) -> None:
    fields: Schema = part["properties"]
    for name in part.get("required", ()):
        if name not in value:
            raise Misfit(f"{at} has no {name!r}")
    for name, one in value.items():
        if name not in fields:
            raise Misfit(f"{at} has {name[:80]!r}, which is not declared")
        _check(fields[name], parts, one, f"{at}.{name}")
