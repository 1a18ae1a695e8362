"""From a declared function to a checked `ToolSpec`; faults are collected, never raised."""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from core.errors import Fault, ToolArgumentsInvalid
from core.text import unfit
from core.tooling import ToolContext, ToolDeclaration, ToolSpec
from tools import docstring
from tools.declared import declaration_of
from tools.threads import in_thread

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


def resolve(function: Callable[..., Any], where: str) -> tuple[ToolSpec | None, list[Fault]]:
    """Check one declared tool.

    Args:
        function: a function marked by `define_tool`.
        where: the extension that brought it.

    Returns:
        The tool, or None with everything that is wrong with it.
    """
    place = f"{where}: {_located(function, where)}"
    faults: list[Fault] = []
    declaration = declaration_of(function, place, faults)
    name = declaration.name or getattr(function, "__name__", "?")
    if not _NAME.match(name):
        faults.append(
            Fault(
                place,
                f"The tool name {name!r} is not allowed.",
                "Use 1 to 64 letters, digits, `_` or `-`; `label` may be in any language.",
            )
        )
    text, described = docstring.read(function)
    summary = declaration.summary or text
    if not summary:
        faults.append(
            Fault(
                place,
                f"The tool {name!r} has neither docstring nor summary.",
                "Write a docstring that says what it does, or pass summary=….",
            )
        )
    shape = _shape(function, name, described, place, faults)
    if faults or shape is None:
        return None, faults
    return _spec(function, declaration, name, summary, shape), []


def _spec(
    function: Callable[..., Any],
    declaration: ToolDeclaration,
    name: str,
    summary: str,
    shape: tuple[type[BaseModel], str | None],
) -> ToolSpec:
    model, context_name = shape
    return ToolSpec(
        name=name,
        label=declaration.label or name,
        group=declaration.group,
        description=summary,
        schema=_schema(model),
        validate=functools.partial(_validate, name, model),
        call=functools.partial(_call, function, context_name),
        requires_approval=declaration.requires_approval,
        side_effect=declaration.side_effect,
        idempotent=declaration.idempotent,
        timeout=declaration.timeout,
        kind=declaration.kind,
        allowed_decisions=tuple(declaration.allowed_decisions),
    )


def _located(function: Callable[..., Any], where: str) -> str:
    """Return name and line of a function; its file too where that is another one."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    if code is None:
        return name
    file = Path(code.co_filename)
    known = f"{file.parent.name}/{file.name}"
    line = f"line {code.co_firstlineno}"
    return f"{name} ({line})" if where.endswith(known) else f"{name} ({known}, {line})"


def _shape(
    function: Callable[..., Any],
    name: str,
    described: Mapping[str, str],
    place: str,
    faults: list[Fault],
) -> tuple[type[BaseModel], str | None] | None:
    """Make the model of a function's arguments and find its hidden context parameter."""
    try:
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError, AttributeError) as problem:
        cure = "Import the named types at the top of the module, not under TYPE_CHECKING."
        faults.append(Fault(place, f"The signature cannot be read: {problem}.", cure))
        return None
    found: dict[str, Any] = {}
    context_name = None
    for parameter in parameters.values():
        hint = hints.get(parameter.name)
        if hint is ToolContext:
            context_name = parameter.name
        elif _fits(parameter, hint, place, faults):
            default = ... if parameter.default is parameter.empty else parameter.default
            found[parameter.name] = (
                hint,
                Field(default, description=described.get(parameter.name)),
            )
    try:
        model = create_model(f"{name}_arguments", __config__=_STRICT, **found)
        _schema(model)
    except (PydanticUserError, TypeError, NameError, ValueError) as problem:
        first = str(problem).splitlines()[0]
        cure = "Use types that JSON can carry: str, int, float, bool, list, dict, Literal, models."
        faults.append(Fault(place, f"No schema can be made of its arguments: {first}", cure))
        return None
    return model, context_name


def _fits(parameter: inspect.Parameter, hint: Any, place: str, faults: list[Fault]) -> bool:
    """Tell whether this parameter can be an argument of a tool."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        what = f"The parameter {parameter.name!r} takes any number of values."
        faults.append(Fault(place, what, "Name every argument of a tool."))
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        what = f"The parameter {parameter.name!r} is positional only."
        faults.append(Fault(place, what, "Remove the `/` from the signature."))
    elif hint is None:
        what = f"The parameter {parameter.name!r} has no type."
        faults.append(Fault(place, what, "Annotate it."))
    elif parameter.name.startswith("_"):
        what = f"The parameter {parameter.name!r} begins with an underscore."
        faults.append(Fault(place, what, "Give it another name."))
    else:
        return True
    return False


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for entry in schema.get("properties", {}).values():
        entry.pop("title", None)
    return schema | {"properties": schema.get("properties", {})}


def _validate(name: str, model: type[BaseModel], args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the right types.

    Raises:
        ToolArgumentsInvalid: naming each argument that is wrong, without its value.
    """
    if wrong := unfit(args):
        raise ToolArgumentsInvalid(f"The arguments of {name} cannot be taken: {wrong}.")
    try:
        # Also inside models of the author's own, whose configuration is not ours.
        json.dumps(args, allow_nan=False)
        checked = model.model_validate(dict(args))
    except ValidationError as problem:
        lines = [
            f"{'.'.join(str(part) for part in error['loc']) or 'arguments'}: {error['msg']}"
            for error in problem.errors(include_url=False, include_input=False)[:10]
        ]
        raise ToolArgumentsInvalid(
            f"The arguments of {name} are wrong. {'; '.join(lines)}. "
            f"It takes: {', '.join(model.model_fields) or 'no arguments'}."
        ) from None
    except (ValueError, TypeError, RecursionError):
        raise ToolArgumentsInvalid(
            f"The arguments of {name} hold a value that JSON does not know, such as NaN."
        ) from None
    return {key: getattr(checked, key) for key in model.model_fields}


async def _call(
    function: Callable[..., Any], context_name: str | None, args: dict[str, Any], ctx: ToolContext
) -> Any:
    arguments = args | ({context_name: ctx} if context_name else {})
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(**arguments)
    result = await in_thread(functools.partial(function, **arguments))
    return await result if isinstance(result, Awaitable) else result
