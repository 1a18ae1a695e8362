"""Checks the components that extensions registered; every fault with its cure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from core.component_schema import Misfit, as_json, check, faults_of
from core.components import ComponentDeclaration, ComponentSpec
from core.errors import Fault
from core.text import clean

_NAME: Final = re.compile(r"[a-z0-9_-]{1,64}\.[a-z0-9_-]{1,64}\Z")


def components_of(
    declarations: Sequence[ComponentDeclaration], faults: list[Fault]
) -> dict[str, ComponentSpec]:
    """Return the components by type, and note everything wrong."""
    found: dict[str, ComponentSpec] = {}
    seen: set[str] = set()
    for said in declarations:
        name = str(said.component_type)[:80]
        place = f"{said.where}: component {name!r}"
        before = len(faults)
        _check_name(said, name, seen, place, faults)
        seen.add(name)
        schema, example = _checked(said, place, faults)
        faults += [
            Fault(place, f"{field} is no text.", f"Write {field}='…'.")
            for field in ("label", "description")
            if not isinstance(getattr(said, field), str)
        ]
        if len(faults) == before:
            label, description = clean(str(said.label)), clean(str(said.description))
            found[name] = ComponentSpec(
                name, schema, example, label or name, description, said.extension
            )
    return found


def _check_name(
    said: ComponentDeclaration, name: str, seen: set[str], place: str, faults: list[Fault]
) -> None:
    own = f"{said.extension}."
    if not isinstance(said.component_type, str) or not _NAME.match(said.component_type):
        cure = f"Write {own}<name> in lower-case letters, digits, `_` or `-`."
        faults.append(Fault(place, "This type is not allowed.", cure))
    elif not name.startswith(own):
        what = "This type is one of another extension."
        faults.append(Fault(place, what, f"Begin it with {own}"))
    elif name in seen:
        what = "A component of this type is registered already."
        faults.append(Fault(place, what, "Give one of them another name."))


def _checked(
    said: ComponentDeclaration, place: str, faults: list[Fault]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return schema and example as plain JSON, empty where something is wrong."""
    schema: dict[str, Any] = {}
    try:
        schema = as_json(said.schema)
        wrong = faults_of(schema)
    except Misfit as misfit:
        wrong = [str(misfit)]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        what = f"Its schema cannot be taken: {wrong[0]}{more}."
        cure = "Declare every field of closed objects; docs/extensions.md has an example."
        faults.append(Fault(place, what, cure))
        return {}, {}
    try:
        example = as_json(said.example)
        check(schema, example)
    except Misfit as misfit:
        cure = "Give an example that the schema allows; it is what the card is shown with."
        faults.append(Fault(place, f"Its example does not fit its schema: {misfit}.", cure))
        return {}, {}
    return schema, example
