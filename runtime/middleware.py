"""Checks the middleware that extensions registered, orders them, and gives them to agents."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from core.declared import check_switch
from core.errors import ConfigError, Fault, ServiceMissing
from core.masking import mask
from core.registry import Assembly, MiddlewareDeclaration, MiddlewareSpec, Registry
from core.tooling import AgentSpec, ToolSpec
from runtime.naming import ALLOWED, known_or_none, listed, nearest, well_formed
from runtime.ordering import arranged
from runtime.wiring import check_required

if TYPE_CHECKING:
    from graphs.middleware import Member

Services = Callable[[Sequence[str]], Mapping[str, Any]]
"""Gives the running services of these names, read-only."""


class _NotYet(dict[str, Any]):
    """Stands for the services of a factory that is tried before they run."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__({name: _Later(name) for name in names})


class _Later:
    """A service that does not run yet; it can be kept and not used."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, wanted: str) -> Any:
        raise ServiceMissing(
            f"The service {self._name!r} does not run yet. A factory only keeps it; a middleware "
            "uses it while a run goes on."
        )


def middleware_of(
    registry: Registry,
    agents: Mapping[str, AgentSpec],
    default_agent: str,
    faults: list[Fault],
) -> tuple[MiddlewareSpec, ...]:
    """Return the middleware in the order in which they wrap, and note everything wrong.

    Args:
        registry: what the extensions registered.
        agents: the agents by name.
        default_agent: the target of those that name none.
        faults: gets what is wrong.
    """
    found: dict[str, MiddlewareSpec] = {}
    needs: dict[str, set[str]] = {}
    services = [one.name for one in registry.services]
    for said in registry.middleware:
        place = f"{said.where}: middleware {said.name!r}"
        spec = _spec(said, place, default_agent, faults)
        check_required(spec.requires, services, place, faults)
        if not well_formed(said.name):
            faults.append(Fault(place, "This name is not allowed.", ALLOWED))
        elif said.name in found:
            what = f"{found[said.name].where} registers a middleware of that name already."
            faults.append(Fault(place, what, "Give one of them another name."))
        else:
            found[said.name], needs[said.name] = spec, set()
    for spec in found.values():
        _check_targets(spec, agents, faults)
    for said in registry.middleware:
        if said.name in found:
            _order(said, found, needs, faults)
    order, circles = arranged(needs)
    for circle in circles:
        what = f"before and after of these middleware form a circle: {' → '.join(circle)}."
        cure = "Take one of the names off before or after."
        faults.append(Fault(found[circle[0]].where, what, cure))
    return tuple(found[name] for name in order)


def tried(
    specs: Sequence[MiddlewareSpec],
    agents: Mapping[str, AgentSpec],
    tools: Mapping[str, ToolSpec],
    faults: list[Fault],
) -> frozenset[str]:
    """Build every stack once, with services that cannot be used yet, and note what is wrong.

    Returns:
        The names of the tools that the middleware bring along.
    """
    if not specs:
        return frozenset()
    built = _Builder(agents, tools, _NotYet)
    built.build(specs)
    faults.extend(built.faults)
    return frozenset(built.tools)


def equipped(assembly: Assembly, services: Services) -> Assembly:
    """Return the assembly with each agent's middleware made anew.

    Args:
        assembly: what passed every check.
        services: gives running services.

    Raises:
        ConfigError: a factory fails with the real services.
    """
    if not assembly.middleware:
        return assembly
    built = _Builder(assembly.agents, assembly.tools, services)
    agents = built.build(assembly.middleware)
    if built.faults:
        raise ConfigError(built.faults)
    return dataclasses.replace(
        assembly,
        agents={**assembly.agents, **agents},
        tools={**assembly.tools, **built.tools},
    )


# Helpers ----------------------------------------------------------------------------------


def _spec(
    said: MiddlewareDeclaration, place: str, default_agent: str, faults: list[Fault]
) -> MiddlewareSpec:
    targets = [default_agent] if said.targets is None else said.targets
    if not callable(said.factory) or inspect.iscoroutinefunction(said.factory):
        cure = "Pass a plain function that takes the services it requires."
        faults.append(Fault(place, "Its factory is no plain function.", cure))
    names = tuple(dict.fromkeys(map(str, listed(targets, "targets", place, faults))))
    if said.targets is not None and not names:
        cure = "Name an agent, or leave targets out for the default one."
        faults.append(Fault(place, "targets is empty.", cure))
    check_switch(said.harmless, "harmless", place, faults)
    return MiddlewareSpec(
        name=said.name,
        factory=said.factory,
        requires=tuple(dict.fromkeys(map(str, listed(said.requires, "requires", place, faults)))),
        targets=names,
        harmless=said.harmless is True,
        where=said.where,
        extension=said.extension,
    )


def _check_targets(
    spec: MiddlewareSpec, agents: Mapping[str, AgentSpec], faults: list[Fault]
) -> None:
    place = f"{spec.where}: middleware {spec.name!r}"
    for name in spec.targets:
        if name not in agents:
            cure = f"{nearest(name, agents)}{known_or_none(agents, 'agents')}"
            what = f"targets names {name!r}, which is no registered agent."
            faults.append(Fault(place, what, cure))
        elif agents[name].graph is not None:
            what = f"Its target {name!r} is a graph of its own, which middleware cannot reach."
            cure = "Give the middleware to that graph where it is built, in its create_agent."
            faults.append(Fault(place, what, cure))


def _order(
    said: MiddlewareDeclaration,
    found: Mapping[str, MiddlewareSpec],
    needs: dict[str, set[str]],
    faults: list[Fault],
) -> None:
    """Note what comes before what, and references that lead nowhere."""
    place, own = f"{said.where}: middleware {said.name!r}", set(found[said.name].targets)
    for field in ("before", "after"):
        for name in map(str, listed(getattr(said, field), field, place, faults)):
            other = found.get(name)
            if other is None:
                cure = f"{nearest(name, found)}{known_or_none(found, 'middleware')}"
                what = f"{field} names {name!r}, which is no registered middleware."
                faults.append(Fault(place, what, cure))
            elif not own & set(other.targets):
                what = f"{field} names {name!r}, but no agent has both."
                faults.append(Fault(place, what, "Take it off, or give both a common target."))
            elif field == "before":
                needs[name].add(said.name)
            else:
                needs[said.name].add(name)


class _Builder:
    """Makes instances and checks them together."""

    def __init__(
        self,
        agents: Mapping[str, AgentSpec],
        tools: Mapping[str, ToolSpec],
        services: Services,
    ) -> None:
        self._agents, self._known, self._services = agents, tools, services
        self.faults: list[Fault] = []
        self.tools: dict[str, ToolSpec] = {}

    def build(self, specs: Sequence[MiddlewareSpec]) -> dict[str, AgentSpec]:
        """Return the agents that have middleware, with it."""
        return {
            name: made
            for name in self._agents
            if (made := self._equipped(name, [one for one in specs if name in one.targets]))
        }

    def _equipped(self, name: str, specs: Sequence[MiddlewareSpec]) -> AgentSpec | None:
        agent = self._agents[name]
        if not specs or agent.graph is not None:
            return None
        from graphs.middleware import Stack, compiled, own_state

        members = [(spec, member) for spec in specs if (member := self._made(spec)) is not None]
        stack = Stack(tuple(member for _, member in members))
        try:
            own_state(stack.members)
        except (ValueError, TypeError, NameError) as error:
            cure = "Give one of them another name for it in its state_schema."
            self._note(specs[0], f"The states of {name}'s middleware do not fit: {error}", cure)
            return None
        if len(members) == len(specs):
            compiled(agent.review, stack)
        brought = [tool.name for tool in self._brought(members)]
        return dataclasses.replace(
            agent, middleware=stack, tools=tuple(dict.fromkeys([*agent.tools, *brought]))
        )

    def _made(self, spec: MiddlewareSpec) -> Member | None:
        """Return a new instance, or note why there is none."""
        from graphs.middleware import REFUSED, AgentMiddleware, Member

        try:
            instance = spec.factory(MappingProxyType(dict(self._services(spec.requires))))
        except ServiceMissing as error:
            self._note(spec, f"Its factory uses a service: {error.message}", "Keep it for later.")
            return None
        except Exception as error:  # boundary: an extension's code; all faults are told together
            told = mask(f"{type(error).__name__}: {error}")
            self._note(spec, f"Its factory fails: {told}.", "Correct it; it takes the services.")
            return None
        if not isinstance(instance, AgentMiddleware):
            cure = "Return an instance of a subclass of langchain's AgentMiddleware."
            self._note(spec, f"Its factory gave {type(instance).__name__}.", cure)
            return None
        for kind, (why, cure) in REFUSED.items():
            if isinstance(instance, kind):
                self._note(spec, f"{kind.__name__} {why}.", cure)
                return None
        made = Member(spec.name, cast("AgentMiddleware[Any, Any]", instance), spec.harmless)
        return self._sound(spec, made)

    def _sound(self, spec: MiddlewareSpec, member: Member) -> Member | None:
        altering = any(member.has(name) for name in ("wrap_model_call", "after_model"))
        if member.middleware.transformers and not altering:
            what = "It changes text by stream transformers only, which are not run here."
            self._note(spec, what, "Change the text in after_model or wrap_model_call.")
            return None
        return member

    def _brought(self, members: Sequence[tuple[MiddlewareSpec, Member]]) -> Iterator[Any]:
        """Give the tools that middleware bring along, and note names that are taken."""
        from graphs.middleware import spec_of

        for spec, member in members:
            for tool in getattr(member.middleware, "tools", None) or ():
                if not well_formed(tool.name) or tool.name in self._known:
                    what = f"The name of its tool {tool.name!r} is taken, or not allowed."
                    self._note(spec, what, f"Give the tool another name. {ALLOWED}")
                    continue
                self.tools[tool.name] = spec_of(tool, spec.extension)
                yield tool

    def _note(self, spec: MiddlewareSpec, what: str, cure: str) -> None:
        fault = Fault(f"{spec.where}: middleware {spec.name!r}", what, cure)
        if fault not in self.faults:
            self.faults.append(fault)
