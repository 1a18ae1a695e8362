"""Checks the model providers that extensions registered; every fault with its cure."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import Fault
from core.providing import ProviderDeclaration, ProviderSpec
from providers.registry import BUILT_IN_PROVIDERS
from runtime.factories import check_factory
from runtime.naming import ALLOWED, well_formed


def providers_of(
    declarations: Sequence[ProviderDeclaration], faults: list[Fault]
) -> tuple[ProviderSpec, ...]:
    """Return the providers, by the order of registration, and note everything wrong."""
    found: dict[str, ProviderSpec] = {}
    for said in declarations:
        place = f"{said.where}: model provider {str(said.name)[:80]!r}"
        before = len(faults)
        if not well_formed(said.name):
            faults.append(Fault(place, "This name is not allowed.", ALLOWED))
        elif said.name in BUILT_IN_PROVIDERS:
            faults.append(Fault(place, "This name is built in.", "Give yours another name."))
        elif said.name in found:
            what = f"{found[said.name].where} registers a provider of that name already."
            faults.append(Fault(place, what, "Give one of them another name."))
        check_factory(said.factory, "the connection of the settings", place, faults)
        if len(faults) == before:
            found[said.name] = ProviderSpec(said.name, said.factory, said.where, said.extension)
    return tuple(found.values())
