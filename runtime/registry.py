"""From what extensions registered to what the product runs on; all faults at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from core.context import Limits
from core.errors import ConfigError, Fault
from core.registry import AgentDeclaration, Assembly, Registry
from core.tooling import DECLARATION, AgentSpec, ToolSpec
from runtime.skills import checked_folders
from tools.resolve import resolve

DEFAULT_AGENT = "assistant"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_OPTIONS = frozenset({"label", "review", "free_calls_first", "parallel_calls", "limits"})
_LIMITS = frozenset(item.name for item in fields(Limits))


def assemble(
    registry: Registry,
    hitl_tools: Collection[str] = (),
    *,
    extensions: Sequence[str] = (),
    disabled: Sequence[str] = (),
    default_agent: str = DEFAULT_AGENT,
) -> Assembly:
    """Check everything together and return what can be run.

    Args:
        registry: what the extensions' `setup` collected.
        hitl_tools: names that the setting HITL_TOOLS puts under approval.
        extensions: names of the loaded extensions, in order.
        disabled: names of those that are switched off.
        default_agent: the agent of requests that name none.

    Raises:
        ConfigError: with every fault, each with place and cure.
    """
    faults = list(registry.faults)
    tools = _tools(registry, faults)
    agents: dict[str, AgentSpec] = {}
    for declaration in registry.agents:
        spec = _agent(declaration, tools, faults)
        if declaration.name in agents:
            what = f"The agent {declaration.name!r} is registered twice."
            faults.append(Fault(declaration.where, what, "Give one of them another name."))
        agents[declaration.name] = spec
    skills = checked_folders(registry, faults)
    for name in sorted(set(hitl_tools) - set(tools)):
        cure = f"{_nearest(name, tools)}Known tools: {', '.join(sorted(tools)) or 'none'}."
        faults.append(Fault("HITL_TOOLS", f"There is no tool {name!r}.", cure))
    if default_agent not in agents:
        cure = "Register it, or load the extension `core`."
        faults.append(Fault("agents", f"There is no agent {default_agent!r}.", cure))
    if faults:
        raise ConfigError(faults)
    declared = {name for name, spec in tools.items() if spec.requires_approval}
    return Assembly(
        tools=tools,
        agents=agents,
        default_agent=default_agent,
        extensions=tuple(extensions),
        disabled_extensions=tuple(disabled),
        approval_tools=frozenset(declared | set(hitl_tools)),
        skills=skills,
    )


def _tools(registry: Registry, faults: list[Fault]) -> dict[str, ToolSpec]:
    tools: dict[str, ToolSpec] = {}
    owners: dict[str, str] = {}
    for function, where in registry.tools:
        spec, found = resolve(function, where)
        faults.extend(found)
        if spec is None:
            continue
        if spec.name in tools:
            what = f"The tool {spec.name!r} is registered by {owners[spec.name]!r} already."
            faults.append(Fault(where, what, "Give one of them another name: name=…."))
            continue
        tools[spec.name], owners[spec.name] = spec, where
    return tools


def _agent(
    declaration: AgentDeclaration, tools: Mapping[str, ToolSpec], faults: list[Fault]
) -> AgentSpec:
    place = f"{declaration.where}: agent {declaration.name!r}"
    if not _NAME.match(declaration.name):
        cure = "Use 1 to 64 letters, digits, `_` or `-`."
        faults.append(Fault(place, "This name is not allowed.", cure))
    names = _references(declaration.tools, "tools", place, tools, faults)
    guarded = _references(declaration.approval_tools, "approval_tools", place, tools, faults)
    for name in guarded:
        if name not in names:
            what = f"approval_tools names {name!r}, which this agent does not have."
            faults.append(Fault(place, what, "Add it to tools, or take it off approval_tools."))
    options = declaration.options
    for option in sorted(set(options) - _OPTIONS):
        cure = f"{_nearest(option, _OPTIONS)}Known: {', '.join(sorted(_OPTIONS))}."
        faults.append(Fault(place, f"register_agent has no option {option!r}.", cure))
    for limit in sorted(set(options.get("limits") or {}) - _LIMITS):
        cure = f"{_nearest(limit, _LIMITS)}Known: {', '.join(sorted(_LIMITS))}."
        faults.append(Fault(place, f"There is no limit {limit!r}.", cure))
    kept = {key: value for key, value in options.items() if key in _OPTIONS}
    kept.setdefault("label", declaration.name)
    return AgentSpec(
        name=declaration.name,
        description=declaration.description,
        prompt=declaration.prompt,
        tools=names,
        approval_tools=frozenset(guarded),
        **kept,
    )


def _references(
    wanted: Iterable[Callable[..., Any] | str],
    field: str,
    place: str,
    tools: Mapping[str, ToolSpec],
    faults: list[Fault],
) -> tuple[str, ...]:
    """Return the names, and note those that no tool has."""
    names: list[str] = []
    for item in wanted:
        name = item if isinstance(item, str) else _declared_name(item)
        if name not in tools:
            what = f"{field} names {name!r}, which is no registered tool."
            cure = _nearest(name, tools) or "Register it with registry.register_tool."
            faults.append(Fault(place, what, cure))
        elif name not in names:
            names.append(name)
    return tuple(names)


def _declared_name(function: Callable[..., Any]) -> str:
    said: Mapping[str, Any] = getattr(function, DECLARATION, {})
    return str(said.get("name") or getattr(function, "__name__", function))


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {found[0]!r}? " if found else ""
