"""Checks the policies that extensions registered, and makes those of a run."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from core.errors import Fault, PolicyFailed
from core.masking import mask
from core.policies import (
    ASYNC,
    DEFAULT,
    METHODS,
    ModelGateway,
    PolicyDeclaration,
    PolicyKind,
    PolicySpec,
    RunPolicies,
)
from core.ports import ModelHandle
from core.tooling import AgentSpec
from runtime.factories import check_factory
from runtime.fingerprints import fingerprint_of
from runtime.naming import ALLOWED, known_or_none, nearest, well_formed

Policies = Mapping[tuple[str, str], PolicySpec]
"""By kind and name."""

_NUMBERS: Final = {1: "one argument", 3: "three arguments"}


def policies_of(declarations: Sequence[PolicyDeclaration], faults: list[Fault]) -> Policies:
    """Return the policies, each made once to try it, and note everything wrong."""
    found: dict[tuple[str, str], PolicySpec] = {}
    for said in declarations:
        name, kind = str(said.name)[:80], str(said.kind)[:80]
        place = f"{said.where}: {kind} policy {name!r}"
        before = len(faults)
        if kind not in METHODS:
            cure = f"{nearest(kind, METHODS)}{known_or_none(METHODS, 'kinds')}"
            faults.append(Fault(place, "There is no such kind of policy.", cure))
        if not well_formed(said.name):
            faults.append(Fault(place, "This name is not allowed.", ALLOWED))
        elif said.name == DEFAULT:
            what = "This name stands for the product's own decision."
            faults.append(Fault(place, what, "Give yours another name."))
        elif (kind, name) in found:
            what = f"A {kind} policy of that name is registered already."
            faults.append(Fault(place, what, "Give one of them another name: name=…."))
        check_factory(said.factory, "", place, faults)
        if len(faults) == before:
            _try(said, kind, place, faults)
        if len(faults) == before:
            found[kind, name] = PolicySpec(
                cast("PolicyKind", kind),
                name,
                said.factory,
                said.extension,
                fingerprint_of(said.factory),
            )
    return found


def check_agents(
    agents: Iterable[tuple[AgentSpec, str]],
    policies: Policies,
    broken: frozenset[tuple[str, str]],
    faults: list[Fault],
) -> None:
    """Note what agents name that is no policy.

    Args:
        agents: each with its place.
        policies: those that passed.
        broken: kind and name of those that did not, and whose faults were told.
        faults: gets what is wrong.
    """
    for agent, place in agents:
        for kind, name in agent.policies.items():
            if kind not in METHODS:
                cure = f"{nearest(kind, METHODS)}{known_or_none(METHODS, 'kinds')}"
                faults.append(Fault(place, f"policies names the kind {kind!r}.", cure))
                continue
            known = {one for of, one in policies if of == kind} | {DEFAULT}
            if name not in known and (kind, name) not in broken:
                what = f"policies names {name!r}, which is no {kind} policy."
                cure = f"{nearest(name, known)}{known_or_none(known, 'policies')}"
                faults.append(Fault(place, what, cure))


def run_policies(policies: Policies, agent: AgentSpec) -> RunPolicies:
    """Make the policies of a run, all but the gateway.

    Raises:
        PolicyFailed: a factory fails, though it did not at the start.
    """
    made = {
        kind: _made(spec)
        for kind in ("context_view", "summarisation", "completion_review")
        if (spec := policies.get((kind, agent.policies.get(kind, DEFAULT)))) is not None
    }
    return RunPolicies(
        view=made.get("context_view"),
        summarisation=made.get("summarisation"),
        review=made.get("completion_review"),
        names=dict(agent.policies),
    )


def gated(model: ModelHandle, policies: Policies, agent: AgentSpec, clock: Any) -> ModelHandle:
    """Return the model as the agent's gateway lets it be asked.

    Raises:
        PolicyFailed: the gateway fails, or gives no model.
    """
    spec = policies.get(("model_gateway", agent.policies.get("model_gateway", DEFAULT)))
    if spec is None:
        return model
    from providers.guarded import GuardedHandle, is_handle

    gateway: ModelGateway = _made(spec)
    try:
        wrapped: Any = gateway.wrap(model)
    except BaseException as problem:  # boundary: a policy of an extension may raise anything
        raise _failed(spec, problem) from problem
    if not is_handle(wrapped):
        said = f"wrap() gave {type(wrapped).__name__}, which is no model"
        raise PolicyFailed(f"The model_gateway policy {spec.name}: {said}.")
    return GuardedHandle(wrapped, model.provider, clock, is_demo=model.is_demo)


# Helpers ----------------------------------------------------------------------------------


def _made(spec: PolicySpec) -> Any:
    try:
        return spec.factory()
    except BaseException as problem:  # boundary: a factory of an extension may raise anything
        raise _failed(spec, problem) from problem


def _failed(spec: PolicySpec, problem: BaseException) -> PolicyFailed:
    return PolicyFailed(f"The {spec.kind} policy {spec.name} failed ({type(problem).__name__}).")


def _try(said: PolicyDeclaration, kind: str, place: str, faults: list[Fault]) -> None:
    """Make it once and look for the methods of its kind."""
    try:
        made: object = said.factory()
    except (Exception, SystemExit) as error:  # boundary: foreign code must not end the start
        what = f"Its factory failed: {mask(f'{type(error).__name__}: {error}')[:500]}."
        faults.append(Fault(place, what, "Let it only make the policy."))
        return
    for name, count in METHODS[kind].items():
        method = getattr(made, name, None)
        later = name in ASYNC
        shape = f"{'async ' if later else ''}def {name}, with {_NUMBERS[count]}"
        if not callable(method):
            what = f"What its factory gives, {type(made).__name__}, has no {name}()."
            faults.append(Fault(place, what, f"Give it {shape}."))
        elif inspect.iscoroutinefunction(method) != later or not _takes(method, count):
            faults.append(Fault(place, f"Its {name}() has another shape.", f"Write {shape}."))


def _takes(method: Any, count: int) -> bool:
    try:
        inspect.signature(method).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
