"""Whatever an extension passes to a `register_…`, it is a fault with a cure, and nothing raises."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import APIRouter

from api.ext import faults_of
from core.clock import SystemClock
from core.errors import ConfigError, Fault
from core.registry import Registry
from core.settings import Settings
from core.tooling import ToolDeclaration, define_tool
from runtime.agents import Agents
from runtime.composing import composed
from runtime.services import Services
from tools.now import now

DOORS = [name for name in dir(Registry) if name.startswith("register_")]


class Unfriendly:
    """Has no truth, no text, no size and no likeness."""

    __hash__: Any = None

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no likeness")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __len__(self) -> int:
        raise RuntimeError("no size")


ODD: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 7,
    "nan": lambda: float("nan"),
    "empty": lambda: "",
    "text": lambda: "acme",
    "surrogate": lambda: "\ud800\x00",
    "bytes": lambda: b"x",
    "list": list,
    "nested": lambda: [["x"], {"y": 1}, None],
    "dict": dict,
    "odd_dict": lambda: {1: object(), None: []},
    "set": lambda: {"x", 1},
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda one=None: one,
    "builtin": lambda: len,
    "unfriendly": Unfriendly,
}


def view(_: Any = None) -> Any:
    return SimpleNamespace(build=lambda messages, system, summary: [])


def graph() -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    built = StateGraph(MessagesState)
    built.add_node("a", lambda state: {})
    built.add_edge(START, "a")
    return built


def look(event: Any) -> None: ...


def middleware(_: Any) -> Any:
    from langchain.agents.middleware import AgentMiddleware

    return AgentMiddleware()


CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
VALID: dict[str, dict[str, Any]] = {
    "register_agent": {"name": "acme"},
    "register_component": {"component_type": "acme.x", "schema": CLOSED, "example": {}},
    "register_hook": {"point": "run.after", "function": look},
    "register_middleware": {"name": "acme", "factory": middleware},
    "register_model_provider": {"name": "acme", "factory": lambda connection: None},
    "register_policy": {"kind": "context_view", "factory": view},
    "register_router": {"router": APIRouter()},
    "register_service": {"name": "acme", "factory": lambda services: None},
    "register_skills": {"folder": "skills"},
    "register_subgraph": {"name": "acme", "description": "", "build": graph},
    "register_tool": {"function": now},
}
OPTIONS = {
    "register_agent": [
        *("label", "review", "free_calls_first", "parallel_calls", "limits", "delegates"),
        *("policies", "more"),
    ]
}


def parameters(door: str) -> list[str]:
    said = inspect.signature(getattr(Registry, door)).parameters.values()
    own = [one.name for one in said if one.kind is not one.VAR_KEYWORD and one.name != "self"]
    return own + OPTIONS.get(door, [])


def started(registry: Registry) -> tuple[list[Fault], str]:
    """Return the faults of a start, or what `GET /api/model` would show of it as text."""
    try:
        assembly, _ = composed(Settings(), SystemClock(), registry, faults_of(registry.routers))
    except ConfigError as error:
        return list(error.faults), ""
    return [], json.dumps(Agents(assembly, Services(())).summary(), ensure_ascii=False)


@pytest.mark.req("EXT-04", "EXT-05")
@pytest.mark.parametrize(
    ("door", "parameter"), [(door, one) for door in DOORS for one in parameters(door)]
)
def test_one_odd_value_is_a_fault_or_does_no_harm(door: str, parameter: str):
    for odd in ODD.values():
        registry = Registry(where="acme/extension.py", extension="acme")
        registry.register_agent("assistant")
        getattr(registry, door)(**VALID[door] | {parameter: odd()})
        faults, shown = started(registry)
        assert all(fault.what and fault.cure for fault in faults)
        shown.encode()


def registered(door: str, odd: Callable[[], Any]) -> Registry:
    """Return a registry in which one door got that value for everything."""
    registry = Registry(where="acme/extension.py", extension="acme")
    registry.register_agent("assistant")
    method = getattr(registry, door)
    said = inspect.signature(method).parameters
    keywords = {
        name: odd()
        for name, one in said.items()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    method(**keywords)
    return registry


@pytest.mark.req("EXT-03", "EXT-04", "EXT-05")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("odd", ODD)
def test_a_door_takes_anything_and_the_start_tells_what_is_wrong(door: str, odd: str):
    registry = registered(door, ODD[odd])
    faults, shown = started(registry)
    shown.encode()
    assert all(fault.what and fault.cure for fault in faults)
    if odd in ("none", "number", "nan", "list", "object", "unfriendly"):
        assert faults, "nothing is wrong with it?"
        for fault in faults:
            str(fault.where).encode()
            fault.what.encode()


@pytest.mark.req("EXT-03", "EXT-05")
@pytest.mark.parametrize("option", [one.name for one in dataclasses.fields(ToolDeclaration)])
@pytest.mark.parametrize("odd", ODD)
def test_whatever_define_tool_is_given_is_a_fault_or_does_no_harm(option: str, odd: str):
    def looked_up(text: str) -> str:
        """Look it up."""
        return text

    registry = Registry(where="acme/extension.py", extension="acme")
    tool = define_tool(**{option: ODD[odd]()})(looked_up)
    registry.register_tool(tool)
    registry.register_agent("assistant", tools=[tool])
    faults, shown = started(registry)
    shown.encode()
    assert all("acme/extension.py" in fault.where and fault.cure for fault in faults)
    if option not in ("name", "group", "label", "summary"):
        fitting = {"timeout": ("none", "number")}.get(option, ())
        assert bool(faults) is (odd not in fitting)
    elif odd not in ("none", "empty", "text", "surrogate"):
        assert [fault.what for fault in faults] == [f"{option} is {_kind(odd)}, not text."]


def _kind(odd: str) -> str:
    return type(ODD[odd]()).__name__
