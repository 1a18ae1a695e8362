"""Names that extensions registered, made fit for every check to look at.

One that cannot be compared, or looked for, becomes one that no check lets pass: `<list>`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from core.registry import AgentDeclaration, Registry

_PLAIN = (str, int, float, bytes, type(None))
_LISTS = (list, tuple, set, frozenset)


def tidied(registry: Registry) -> Registry:
    """Return what was registered with every name plain; what is plain already stays."""
    return dataclasses.replace(
        registry,
        tools=[one._replace(requires=_names(one.requires)) for one in registry.tools],
        agents=[_agent(one) for one in registry.agents],
        subgraphs=[one._replace(name=_name(one.name)) for one in registry.subgraphs],
        services=[
            one._replace(name=_name(one.name), requires=_names(one.requires))
            for one in registry.services
        ],
        middleware=[
            one._replace(
                name=_name(one.name),
                requires=_names(one.requires),
                targets=_names(one.targets),
                before=_names(one.before),
                after=_names(one.after),
            )
            for one in registry.middleware
        ],
        model_providers=[one._replace(name=_name(one.name)) for one in registry.model_providers],
        policies=[
            one._replace(kind=_name(one.kind), name=_name(one.name) or one.extension)
            for one in registry.policies
        ],
        hooks=[
            one._replace(point=_name(one.point), agents=_names(one.agents))
            for one in registry.hooks
        ],
    )


def _agent(said: AgentDeclaration) -> AgentDeclaration:
    options = dict(said.options)
    if "delegates" in options:
        options["delegates"] = _names(options["delegates"])
    return dataclasses.replace(said, name=_name(said.name), options=options)


def _name(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else f"<{type(value).__name__}>"


def _names(value: Any) -> Any:
    """Return a list of names; what is no list is a fault that is found later."""
    return [_name(one) for one in cast("list[Any]", value)] if isinstance(value, _LISTS) else value
