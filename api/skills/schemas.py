"""Shapes of skills."""

from __future__ import annotations

from api.schemas import Output
from core.skills import SkillSource


class SkillFault(Output):
    """Why a skill cannot be used, and what mends it."""

    cause: str
    cure: str


class Skill(Output):
    """A skill that agents can load, and messages can ask for."""

    id: str
    """Its name, as `#skill:<name>` takes it."""
    name: str
    description: str
    source: SkillSource
    where: str
    """The extension that brought it, or nothing."""
    overrides: list[SkillSource]
    """Where skills of the same name lie that it stands in front of."""
    fault: SkillFault | None
    """Set where it cannot be used."""
