"""Makes the event of a card that a tool shows, from data that fit its schema."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from core.component_schema import Misfit, check
from core.components import ComponentSpec
from core.errors import ToolFailed
from core.events import Component
from core.hook_values import BadChange, plain
from core.masking import mask_known_value


def card_of(
    components: Mapping[str, ComponentSpec],
    component_type: str,
    data: Mapping[str, Any],
) -> Component:
    """Return the event, without an id yet.

    Args:
        components: those there are, by type.
        component_type: which one is meant.
        data: what it is drawn from.

    Raises:
        ToolFailed: there is no such component, or the data do not fit it.
    """
    # What a tool gives may be anything, whatever the annotation says.
    name = str(component_type)
    spec = components.get(name)
    if spec is None:
        near = difflib.get_close_matches(name, list(components), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ToolFailed(f"There is no component {name[:80]!r}.{hint}")
    try:
        # A copy: what the tool does with its own afterwards changes nothing that was shown.
        copied = mask_known_value(plain(data))
        check(spec.schema, copied)
    except (BadChange, Misfit) as misfit:
        raise ToolFailed(f"The component {name} was not shown: {misfit}.") from None
    return Component(component_type=name, component_id="", data=copied)
