"""Which schemas of components can be taken, and whether data fit one: always in bounded time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from core.component_schema import (
    DATA_SIZE,
    SCHEMA_DEPTH,
    SCHEMA_SIZE,
    Misfit,
    as_json,
    check,
    faults_of,
)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return closed(x=schema)


CARD = closed(
    title={"type": "string", "minLength": 1, "maxLength": 20},
    share={"type": "number", "minimum": 0, "maximum": 1},
    count={"type": "integer"},
    sure={"type": "boolean"},
    kind={"enum": ["one", 1, None]},
    fixed={"const": True},
    points={"type": "array", "items": {"$ref": "#/$defs/point"}, "maxItems": 2},
) | {"required": ["title"], "$defs": {"point": closed(x={"type": "integer"})}}


@pytest.mark.req("EXT-04", "ART-11")
@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ([], "no JSON object"),
        ({"type": "array", "items": {"type": "string"}}, "its type is not object"),
        ({"type": "object"}, "is open"),
        (closed() | {"additionalProperties": True}, "is open"),
        ({"type": "object", "additionalProperties": False}, "has no properties"),
        (closed(x={"type": "object", "properties": {}}), "the schema → x is open"),
        (closed(x={"type": "string", "pattern": "(a+)+"}), "uses 'pattern'"),
        (closed(x={"type": "string", "format": "uri"}), "uses 'format'"),
        (closed(x={"anyOf": []}), "uses 'anyOf'"),
        (closed(x={"$ref": "https://example.org/x.json"}), "not one of its $defs"),
        (closed(x={"$ref": "#/$defs/y"}), "not one of its $defs"),
        (closed(x={"$ref": ["#"]}), "not one of its $defs"),
        (closed(x={"$ref": "y"}) | {"$defs": {"y": {"type": "null"}}}, "write #/$defs/<name>"),
        (
            closed(x={"$ref": "#/$defs/y", "maxLength": 3}) | {"$defs": {"y": {"type": "string"}}},
            "'maxLength' beside $ref",
        ),
        (closed(x={"type": "text"}), "has no type"),
        (closed(x={"type": ["string", "null"]}), "has no type"),
        (closed(x={"type": ["string"], "enum": ["a"]}), "has no type"),
        (closed(x={}), "has no type"),
        (closed(x=True), "x is no JSON object"),
        (closed(x={"type": "array"}), "x → items is no JSON object"),
        (closed(x={"enum": "abc"}), "enum of the schema → x is no list"),
        (closed(x={"enum": [{"a": 1}]}), "objects or lists"),
        (closed(x={"const": []}), "objects or lists"),
        (closed(x={"type": "string", "maxLength": "3"}), "maxLength of the schema → x"),
        (closed(x={"type": "string"}) | {"required": ["y"]}, "required of the schema"),
        (closed(x={"type": "string"}) | {"required": "x"}, "required of the schema"),
        (closed(x={"type": "string"}) | {"required": [["x"]]}, "required of the schema"),
        (closed() | {"$defs": []}, "$defs is no JSON object"),
        (closed() | {"$defs": {"unused": {"type": "object"}}}, "#/$defs/unused is open"),
        (nested(SCHEMA_DEPTH), "nested more than"),
        (nested(40), "nested more than"),
        (closed(x={"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}}, "circle"),
        (
            closed(x={"$ref": "#/$defs/a"})
            | {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
            "circle",
        ),
        (closed(x={"type": "string", "description": "d" * SCHEMA_SIZE}), "are allowed"),
    ],
)
def test_a_schema_that_says_too_little_or_too_much_is_refused(schema: Any, part: str):
    told = faults_of(as_json(schema))
    assert any(part in fault for fault in told), told


@pytest.mark.req("EXT-04", "ART-11")
@pytest.mark.parametrize(
    "value", [object(), {"x": {1, 2}}, {"x": float("nan")}, {"x": 2**70}, nested(2_000)]
)
def test_what_is_no_json_is_no_schema(value: Any):
    with pytest.raises(Misfit):
        as_json(value)
    assert as_json({1: ("a", "\ud800")}) == {"1": ["a", "\ufffd"]}


@pytest.mark.req("ART-11")
def test_references_that_fan_out_are_counted_once():
    """Ten definitions that name the next one forty times each are 40⁹ ways."""
    names = [f"d{number}" for number in range(SCHEMA_DEPTH - 2)]
    parts: dict[str, Any] = {
        name: closed(**{f"f{i}": {"$ref": f"#/$defs/{after}"} for i in range(40)})
        for name, after in itertools.pairwise(names)
    }
    parts[names[-1]] = {"type": "string"}
    assert faults_of(closed(x={"$ref": "#/$defs/d0"}) | {"$defs": parts}) == []
    chain = {f"c{number}": {"$ref": f"#/$defs/c{number + 1}"} for number in range(900)}
    chain["c900"] = {"type": "string"}
    [told] = faults_of(closed(x={"$ref": "#/$defs/c0"}) | {"$defs": chain})
    assert "nested more than" in told


@pytest.mark.req("EXT-04", "ART-10")
@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"title": "a", "share": 0.5, "count": 2, "sure": True, "kind": None, "fixed": True}, ""),
        ({"title": "a", "points": [{"x": 1}, {}]}, ""),
        ([], "the data is no object"),
        ({}, "has no 'title'"),
        ({"title": ""}, "the length of the data.title is 0, not between 1 and 20"),
        ({"title": "a", "more": 1}, "'more', which is not declared"),
        ({"title": "a", "share": 2}, "the data.share is 2"),
        ({"title": "a", "share": True}, "the data.share is no number"),
        ({"title": "a", "count": 1.5}, "the data.count is no integer"),
        ({"title": "a", "kind": True}, "is none of"),
        ({"title": "a", "fixed": 1}, "is not true"),
        ({"title": "a", "points": [{"x": "1"}]}, "the data.points[0].x is no integer"),
        ({"title": "a", "points": [{}, {}, {}]}, "number of items"),
        ({"title": "a" * DATA_SIZE}, "are allowed"),
        ({"title": {1, 2}}, "no JSON"),
    ],
)
def test_data_fit_or_are_told_where_they_do_not(data: Any, part: str):
    assert faults_of(CARD) == []
    if not part:
        check(CARD, data)
        return
    with pytest.raises(Misfit) as caught:
        check(CARD, data)
    assert part in str(caught.value)
