"""Checks the components that extensions registered; every fault with its cure."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, Final, cast

from core.component_schema import Misfit, check, faults_of
from core.components import ComponentDeclaration, ComponentSpec
from core.errors import Fault

_NAME: Final = re.compile(r"[a-z0-9_-]{1,32}\.[a-z0-9_-]{1,32}\Z")


def components_of(
    declarations: Sequence[ComponentDeclaration], faults: list[Fault]
) -> dict[str, ComponentSpec]:
    """Return the components by type, and note everything wrong."""
    found: dict[str, ComponentSpec] = {}
    for said in declarations:
        name = str(said.component_type)[:80]
        place = f"{said.where}: component {name!r}"
        before = len(faults)
        _check_name(said, name, found, place, faults)
        _check_schema(said, place, faults)
        faults += [
            Fault(place, f"{field} is no text.", f"Write {field}='…'.")
            for field in ("label", "description")
            if not isinstance(getattr(said, field), str)
        ]
        if len(faults) == before:
            found[name] = ComponentSpec(
                name,
                copy.deepcopy(cast("dict[str, Any]", said.schema)),
                copy.deepcopy(cast("dict[str, Any]", said.example)),
                str(said.label) or name,
                str(said.description),
                said.extension,
            )
    return found


def _check_name(
    said: ComponentDeclaration,
    name: str,
    found: dict[str, ComponentSpec],
    place: str,
    faults: list[Fault],
) -> None:
    own = f"{said.extension}."
    if not _NAME.match(name) or not name.startswith(own):
        cure = f"Write {own}<name> in lower-case letters, digits, `_` or `-`."
        faults.append(Fault(place, "This type is not allowed.", cure))
    elif name in found:
        what = "A component of this type is registered already."
        faults.append(Fault(place, what, "Give one of them another name."))


def _check_schema(said: ComponentDeclaration, place: str, faults: list[Fault]) -> None:
    wrong = faults_of(said.schema)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        what = f"Its schema cannot be taken: {wrong[0]}{more}."
        cure = "Declare every field of closed objects; docs/extensions.md has an example."
        faults.append(Fault(place, what, cure))
        return
    try:
        check(cast("dict[str, Any]", said.schema), said.example)
    except Misfit as misfit:
        cure = "Give an example that the schema allows; it is what the card is shown with."
        faults.append(Fault(place, f"Its example does not fit its schema: {misfit}.", cure))
