"""What a graph takes in place of a conversation, made from what its author wrote."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

import typing_extensions
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from core.errors import ToolArgumentsInvalid
from core.tooling import InputShape

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def shape_of(schema: Any) -> InputShape:
    """Return the shape that a pydantic model, a `TypedDict` or a JSON schema describes.

    Raises:
        TypeError: it is none of the three.
        ValueError: it describes no object, or no JSON can carry it.
    """
    if isinstance(schema, Mapping):
        return _of_json_schema(schema)
    is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
    if not (is_model or typing.is_typeddict(schema) or typing_extensions.is_typeddict(schema)):
        raise TypeError(f"{type(schema).__name__} is no model and no schema.")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(schema)
        described = adapter.json_schema()
    except PydanticUserError as error:
        raise ValueError(str(error).splitlines()[0]) from error

    def check(value: Any) -> dict[str, Any]:
        try:
            checked = adapter.validate_python(value)
        except ValidationError as problem:
            lines = [
                f"{'.'.join(map(str, error['loc'])) or 'task'}: {error['msg']}"
                for error in problem.errors(include_url=False, include_input=False)[:10]
            ]
            raise ToolArgumentsInvalid(f"The task does not fit. {'; '.join(lines)}.") from None
        # Checkpoints hold plain data only.
        return adapter.dump_python(checked, mode="json")

    return InputShape(described, check)


def _of_json_schema(schema: Mapping[str, Any]) -> InputShape:
    if schema.get("type") != "object":
        raise ValueError('The schema is not of {"type": "object"}.')

    def check(value: Any) -> dict[str, Any]:
        problems = _problems(schema, value)
        if problems:
            raise ToolArgumentsInvalid(f"The task does not fit. {'; '.join(problems)}.")
        return dict(value)

    return InputShape(dict(schema), check)


def _problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return what is wrong with the first level of an object; the graph checks the rest itself."""
    if not isinstance(value, dict):
        return ["task: an object is expected"]
    properties: Mapping[str, Any] = schema.get("properties") or {}
    problems = [f"{name}: missing" for name in schema.get("required", ()) if name not in value]
    if schema.get("additionalProperties") is False:
        problems += [f"{name}: not expected" for name in value if name not in properties]
    for name, given in value.items():
        kind = (properties.get(name) or {}).get("type")
        allowed = _TYPES.get(kind) if isinstance(kind, str) else None
        wrong_bool = isinstance(given, bool) and kind in ("integer", "number")
        if allowed and (wrong_bool or not isinstance(given, allowed)):
            problems.append(f"{name}: {kind} is expected")
    return problems
