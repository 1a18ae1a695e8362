"""Components: cards that tools show in the stream, declared by extensions (ART-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

MOST_PER_CALL: Final = 20
"""Components that one tool call may show."""


class ComponentDeclaration(NamedTuple):
    """A component as registered, unchecked."""

    component_type: object
    schema: object
    example: object
    label: object
    description: object
    where: str
    extension: str


@dataclass(frozen=True, slots=True)
class ComponentSpec:
    """A component that passed every check."""

    component_type: str
    schema: Mapping[str, Any]
    example: Mapping[str, Any]
    label: str
    description: str
    extension: str
