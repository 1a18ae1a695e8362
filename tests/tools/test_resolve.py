"""From a plain function to a checked tool."""

from __future__ import annotations

import threading
import types
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from core.errors import ToolArgumentsInvalid
from core.tooling import ToolContext, define_tool
from tests.tools.conftest import Context, tool
from tools.resolve import resolve


class Point(BaseModel):
    """A place."""

    x: float
    y: float = 0


@define_tool(group="geometry", label="测量", side_effect="external", timeout=3, idempotent=True)
async def measure(
    ctx: ToolContext,
    points: list[Point],
    unit: Literal["m", "km"] = "m",
    digits: Annotated[int, Field(ge=0, le=9)] = 2,
) -> str:
    """Measure a path.

    The path is taken as straight lines.

    Args:
        ctx: not shown to the model.
        points: the corners,
            in order.
        unit (str): what to measure in.
        digits: places after the point.

    Returns:
        a text.
    """
    return f"{ctx.agent}: {len(points)} {unit} {digits}"


@pytest.mark.req("EXT-03")
def test_the_schema_comes_from_signature_and_docstring():
    spec = tool(measure)
    assert spec.name == "measure"
    assert (spec.label, spec.group, spec.side_effect) == ("测量", "geometry", "external")
    assert (spec.timeout, spec.idempotent, spec.requires_approval) == (3, True, False)
    assert spec.description == "Measure a path.\n\nThe path is taken as straight lines."
    assert set(spec.schema["properties"]) == {"points", "unit", "digits"}
    assert spec.schema["required"] == ["points"]
    assert spec.schema["additionalProperties"] is False
    assert spec.schema["properties"]["points"]["description"] == "the corners, in order."
    assert spec.schema["properties"]["unit"]["enum"] == ["m", "km"]
    assert spec.openai()["function"]["parameters"]["type"] == "object"


@pytest.mark.req("EXT-03")
def test_defaults_are_the_harmless_ones():
    spec = tool(lambda: None, name="nothing")
    assert (spec.requires_approval, spec.side_effect, spec.idempotent) == (False, "none", False)
    assert spec.schema["properties"] == {}
    assert spec.validate({}) == {}


@pytest.mark.req("EXT-03")
async def test_the_function_stays_plain_and_is_called_with_its_context(context: Context):
    spec = tool(measure)
    args = spec.validate({"points": [{"x": 1}], "digits": "3"})
    assert await spec.call(args, context) == "assistant: 1 m 3"
    assert await measure(context, [Point(x=1)]) == "assistant: 1 m 2"


@pytest.mark.req("EXT-03", "L14")
@pytest.mark.parametrize(
    ("args", "named"),
    [
        ({}, "points"),
        ({"points": 7}, "points"),
        ({"points": [], "colour": "red"}, "colour"),
        ({"points": [{"x": "one"}]}, "points.0.x"),
        ({"points": [], "unit": "mile"}, "unit"),
        ({"points": [], "digits": None}, "digits"),
    ],
)
def test_wrong_arguments_are_named_and_refused(args, named):
    with pytest.raises(ToolArgumentsInvalid) as caught:
        tool(measure).validate(args)
    assert named in caught.value.message
    assert "It takes: points, unit, digits" in caught.value.message


def test_numbers_that_json_does_not_know_are_refused():
    with pytest.raises(ToolArgumentsInvalid, match="NaN"):
        tool(measure).validate({"points": [{"x": float("nan")}]})


async def test_a_sync_function_runs_beside_the_loop(context: Context):
    def here() -> int:
        return threading.get_ident()

    spec = tool(here)
    assert await spec.call({}, context) != threading.get_ident()


def undocumented(a: int) -> int:
    return a


def untyped(a) -> None:
    """Do it."""


def many(*numbers: int) -> None:
    """Do it."""


def positional(a: int, /) -> None:
    """Do it."""


def odd(thread: threading.Thread) -> None:
    """Do it."""


def unknown(value: "Missing") -> None:  # noqa: F821, UP037 - the fault under test
    """Do it."""


def fine() -> None:
    """Do it."""


@pytest.mark.req("EXT-03")
@pytest.mark.parametrize(
    ("function", "options", "what", "cure"),
    [
        (undocumented, {}, "neither docstring nor summary", "docstring"),
        (untyped, {}, "'a' has no type", "Annotate"),
        (many, {}, "any number of values", "Name every argument"),
        (positional, {}, "positional only", "`/`"),
        (odd, {}, "No schema", "types that JSON can carry"),
        (unknown, {}, "cannot be read", "Import"),
        (fine, {"name": "读"}, "tool name '读'", "letters"),
        (fine, {"name": "a" * 65}, "is not allowed", "1 to 64"),
        (fine, {"side_effect": "huge"}, "side_effect='huge'", "write"),
        (fine, {"timeout": 0}, "timeout=0", "above 0"),
        (fine, {"allowed_decisions": "approve"}, "allowed_decisions", "reject"),
        (fine, {"kind": "riddle"}, "kind='riddle'", "question"),
        (fine, {"colour": "red"}, "option 'colour'", "timeout"),
    ],
)
def test_each_fault_is_reported_with_file_and_cure_and_never_raised(function, options, what, cure):
    spec, faults = resolve(_declared(function, options), "my_extension")
    assert spec is None
    text = " ".join(f"{fault.what} {fault.cure}" for fault in faults)
    assert what in text
    assert cure in text
    assert all(fault.where.startswith("my_extension: ") for fault in faults)
    assert all("test_resolve.py, line " in fault.where for fault in faults)


def _declared(function, options):
    """Declare a copy, so that the cases do not see each other's options."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__
    )
    copy.__doc__, copy.__annotations__ = function.__doc__, function.__annotations__
    return define_tool(**options)(copy)


def test_all_faults_of_a_tool_come_together():
    def bad(a, *b: int) -> None:
        pass

    spec, faults = resolve(define_tool(name="schön", side_effect="x")(bad), "e")
    assert spec is None
    assert len(faults) == 5


@pytest.mark.parametrize("thing", [fine, define_tool()(len), 7])
def test_what_is_no_tool_is_a_fault(thing):
    spec, faults = resolve(thing, "e")
    assert spec is None
    assert "not declared as a tool" in faults[0].what
