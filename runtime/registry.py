"""From what extensions registered to what the product runs on; all faults at once."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from core.context import Limits
from core.declared import texts
from core.errors import ConfigError, Fault
from core.registry import BUILT_IN, AgentDeclaration, Assembly, Registry, ToolDeclaration
from core.tooling import DECLARATION, AgentSpec, ToolSpec
from runtime.brought import brought_by, policies_in
from runtime.declared import checked_options
from runtime.delegates import with_delegate, with_delegates
from runtime.middleware import middleware_of, tried
from runtime.naming import ALLOWED, known_or_none, listed, nearest, well_formed
from runtime.skills import checked_folders
from runtime.subgraphs import subgraphs_of
from runtime.tidying import tidied
from runtime.wiring import check_required, services_of
from tools.resolve import resolve

DEFAULT_AGENT = "assistant"

_OPTIONS = frozenset(
    {"label", "review", "free_calls_first", "parallel_calls", "limits", "delegates", "policies"}
)
_LIMITS = frozenset(item.name for item in dataclasses.fields(Limits))


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
    options: dict[str, Any] = {"extensions": extensions, "disabled": disabled}
    options["default_agent"] = default_agent
    rebuild = functools.partial(assemble, registry, hitl_tools, **options)
    registry = tidied(registry)
    faults = list(registry.faults)
    services = services_of(registry.services, faults)
    offered = _offered(registry)
    tools = _tools(offered, {item.name for item in registry.services}, faults)
    agents = _all_agents(registry, offered, tools, faults)
    middleware = middleware_of(registry, agents, default_agent, faults)
    added = tried(middleware, agents, tools, faults)
    brought = brought_by(registry, agents, faults)
    skills = checked_folders(registry, faults)
    _check_settings(hitl_tools, {*tools, *added}, default_agent, agents, faults)
    if faults:
        raise ConfigError(faults)
    return Assembly(
        tools=tools,
        agents=agents,
        default_agent=default_agent,
        extensions=tuple(extensions),
        disabled_extensions=tuple(disabled),
        approval_tools=_guarded(tools, hitl_tools),
        skills=skills,
        services=services,
        middleware=middleware,
        routers=tuple(registry.routers),
        **brought,
        rebuild=rebuild,
    )


def _check_settings(
    hitl_tools: Collection[str],
    tools: Collection[str],
    default_agent: str,
    agents: Mapping[str, AgentSpec],
    faults: list[Fault],
) -> None:
    for name in sorted(set(hitl_tools) - set(tools)):
        cure = f"{nearest(name, tools)}{known_or_none(tools, 'tools')}"
        faults.append(Fault("HITL_TOOLS", f"There is no tool {name!r}.", cure))
    if default_agent not in agents:
        cure = "Register it, or load the extension `core`."
        faults.append(Fault("agents", f"There is no agent {default_agent!r}.", cure))
    elif agents[default_agent].delegate_only:
        cure = "Name another default agent; this one takes tasks of other agents only."
        faults.append(Fault("agents", f"{default_agent!r} takes no messages.", cure))


def _guarded(tools: Mapping[str, ToolSpec], hitl_tools: Collection[str]) -> frozenset[str]:
    declared = {name for name, spec in tools.items() if spec.requires_approval}
    return frozenset(declared | set(hitl_tools))


def _offered(registry: Registry) -> list[ToolDeclaration]:
    """Return all functions, the built-in ones first, those that only agents name last."""
    offered = sorted(registry.tools, key=lambda said: said.extension != BUILT_IN)
    known = {id(said.function) for said in offered}
    for agent in registry.agents:
        for item in agent.tools if isinstance(agent.tools, list | tuple) else ():
            if callable(item) and id(item) not in known:
                known.add(id(item))
                offered.append(ToolDeclaration(item, agent.where, (), agent.extension))
    return offered


def _tools(
    offered: Sequence[ToolDeclaration], services: Collection[str], faults: list[Fault]
) -> dict[str, ToolSpec]:
    tools: dict[str, ToolSpec] = {}
    owners: dict[str, ToolDeclaration] = {}
    for said in offered:
        spec, found = resolve(said.function, said.where)
        faults.extend(found)
        if spec is None:
            continue
        if spec.name in tools:
            faults.append(_taken("tool", spec.name, said, owners[spec.name], "name=…"))
            continue
        requires = said.requires if isinstance(said.requires, list | tuple) else ()
        tools[spec.name] = dataclasses.replace(
            spec, requires=tuple(map(str, requires)), extension=said.extension
        )
        owners[spec.name] = said
    _check_requires(offered, services, faults)
    return tools


def _check_requires(
    offered: Sequence[ToolDeclaration], services: Collection[str], faults: list[Fault]
) -> None:
    for said in offered:
        place = f"{said.where}: tool {_declared_name(said.function)!r}"
        check_required(listed(said.requires, "requires", place, faults), services, place, faults)


def _all_agents(
    registry: Registry,
    offered: Sequence[ToolDeclaration],
    tools: dict[str, ToolSpec],
    faults: list[Fault],
) -> dict[str, AgentSpec]:
    """Return the agents and the graphs registered whole, with those that they may delegate to."""
    broken = {_declared_name(said.function) for said in offered} - set(tools)
    agents = _agents(registry, tools, broken, faults)
    agents |= subgraphs_of(registry.subgraphs, agents, faults)
    return with_delegates(registry, offered, agents, tools, faults)


def _agents(
    registry: Registry,
    tools: Mapping[str, ToolSpec],
    broken: Collection[str],
    faults: list[Fault],
) -> dict[str, AgentSpec]:
    """Return the agents; tools in `broken` are there, and their faults were told already."""
    agents: dict[str, AgentSpec] = {}
    owners: dict[str, AgentDeclaration] = {}
    for said in sorted(registry.agents, key=lambda said: said.extension != BUILT_IN):
        spec = _agent(said, tools, broken, faults)
        if spec is None:
            continue
        if said.name in agents:
            faults.append(_taken("agent", said.name, said, owners[said.name], "the first argument"))
            continue
        agents[said.name], owners[said.name] = spec, said
    return agents


def _taken(
    kind: str,
    name: str,
    said: ToolDeclaration | AgentDeclaration,
    owner: ToolDeclaration | AgentDeclaration,
    by: str,
) -> Fault:
    if owner.extension == BUILT_IN and said.extension != BUILT_IN:
        what = f"The {kind} {name!r} is built in."
        return Fault(said.where, what, f"Give yours another name: {by}.")
    what = f"The {kind} {name!r} is registered by {owner.where!r} already."
    return Fault(said.where, what, f"Give one of them another name: {by}.")


def _agent(
    declaration: AgentDeclaration,
    tools: Mapping[str, ToolSpec],
    broken: Collection[str],
    faults: list[Fault],
) -> AgentSpec | None:
    place = f"{declaration.where}: agent {declaration.name!r}"
    if not well_formed(declaration.name):
        faults.append(Fault(place, "This name is not allowed.", ALLOWED))
    known = {*tools, *broken}
    names = with_delegate(
        declaration, _references(declaration.tools, "tools", place, known, faults)
    )
    guarded = _references(declaration.approval_tools, "approval_tools", place, known, faults)
    for name in guarded:
        if name not in names:
            what = f"approval_tools names {name!r}, which this agent does not have."
            faults.append(Fault(place, what, "Add it to tools, or take it off approval_tools."))
    said = {"description": declaration.description, "prompt": declaration.prompt}
    words = texts(said, place, faults)
    options = checked_options(_options(declaration.options, place, faults), place, faults)
    kept = policies_in(options, place, faults)
    kept["label"] = kept.get("label") or declaration.name
    if not well_formed(declaration.name):
        return None
    return AgentSpec(
        name=declaration.name,
        **words,
        tools=names,
        approval_tools=frozenset(guarded),
        **kept,
    )


def _options(options: Mapping[str, Any], place: str, faults: list[Fault]) -> dict[str, Any]:
    """Return the options that there are, and note the others."""
    for option in sorted(set(options) - _OPTIONS):
        cure = f"{nearest(option, _OPTIONS)}{known_or_none(_OPTIONS, 'options')}"
        faults.append(Fault(place, f"register_agent has no option {option!r}.", cure))
    limits: Any = options.get("limits", {})
    if not isinstance(limits, Mapping):
        cure = f"Write limits={{…}}. {known_or_none(_LIMITS, 'limits')}"
        faults.append(Fault(place, "limits is no mapping of names to numbers.", cure))
        limits, options = {}, {key: one for key, one in options.items() if key != "limits"}
    named = cast("Mapping[Any, Any]", limits)
    for limit in sorted({str(limit) for limit in named} - _LIMITS):
        cure = f"{nearest(limit, _LIMITS)}{known_or_none(_LIMITS, 'limits')}"
        faults.append(Fault(place, f"There is no limit {limit!r}.", cure))
    # `delegates` is checked once all agents are known.
    return {key: value for key, value in options.items() if key in _OPTIONS - {"delegates"}}


def _references(
    wanted: Any, field: str, place: str, tools: Collection[str], faults: list[Fault]
) -> tuple[str, ...]:
    """Return the names, and note those that no tool has."""
    names: list[str] = []
    for item in listed(wanted, field, place, faults):
        name = item if isinstance(item, str) else _declared_name(item)
        if name not in tools:
            what = f"{field} names {name!r}, which is no registered tool."
            cure = nearest(name, tools).strip() or "Register it with registry.register_tool."
            faults.append(Fault(place, what, cure))
        elif name not in names:
            names.append(name)
    return tuple(names)


def _declared_name(function: Callable[..., Any]) -> str:
    said = getattr(function, DECLARATION, None)
    name = cast("Mapping[str, Any]", said).get("name") if isinstance(said, Mapping) else None
    if isinstance(name, str) and name:
        return name
    return str(getattr(function, "__name__", type(function).__name__))
