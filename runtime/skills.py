"""Skills for people and for runs: who has which, and what is wrong with them (SKILL-01)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from core.context import PromptPart
from core.errors import Fault
from core.health import Part
from core.principal import Principal
from core.registry import Assembly, Registry
from core.skills import Skill, SkillFault, SkillShelf
from core.tooling import AgentSpec
from tools.skills.index import index_text
from tools.skills.library import SkillLibrary

BUILT_IN: Final = Path(__file__).resolve().parent.parent / "skills"
"""Skills that come with the product; beside the rooms in a checkout and in an installed package."""

LOAD: Final = "load_skill"
"""The tool without which an agent is told of no skills."""

_SHOWN: Final = 5
"""Faults that `/health` spells out."""


class Skills:
    """Reads the library for people."""

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library

    async def list(self, principal: Principal) -> list[dict[str, Any]]:
        """Return the user's skills by name, those that cannot be used with what is wrong."""
        shelf = await self._library.shelf(principal)
        items = [_shown(skill) for skill in shelf.skills]
        fault = await self._library.own_fault(principal)
        if fault is not None:
            items.append(_shown(Skill(":user", "", "user", fault=fault)))
        return items

    async def health(self) -> Part:
        """Say what is wrong with skills of the product and its extensions."""
        faults = await self._library.faults()
        facts = {"broken": len(faults)}
        if not faults:
            return Part("skills", "ok", facts=facts)
        shown = faults[:_SHOWN]
        more = f" And {len(faults) - _SHOWN} more." if len(faults) > _SHOWN else ""
        cause = " ".join(f"{place}: {fault.cause}" for place, fault in shown) + more
        cure = " ".join(dict.fromkeys(fault.cure for _, fault in shown))
        return Part("skills", "degraded", cause, cure, facts=facts)


def library_of(assembly: Assembly, data_dir: Path) -> SkillLibrary:
    """Return the library of this product."""
    return SkillLibrary(BUILT_IN, assembly.skills, data_dir)


def skill_parts(agent: AgentSpec, shelf: SkillShelf) -> list[PromptPart]:
    """Return the index of skills as a part of the prompt, for agents that can load them."""
    text = index_text(shelf.skills) if LOAD in agent.tools else ""
    return [PromptPart("skills", text)] if text else []


def checked_folders(registry: Registry, faults: list[Fault]) -> tuple[tuple[Path, str], ...]:
    """Return the registered folders of skills, and note those that are none."""
    found: list[tuple[Path, str]] = []
    for given, where in registry.skills:
        folder = Path(given) if isinstance(given, str | Path) and str(given) else None
        if folder is None or folder.is_symlink() or not folder.is_dir():
            name = folder.name if folder else type(given).__name__
            what = f"register_skills names {name!r}, which is no folder or a link."
            cure = 'Give a real folder, such as Path(__file__).parent / "skills".'
            faults.append(Fault(where, what, cure))
        else:
            found.append((folder, where))
    return tuple(found)


def _shown(skill: Skill) -> dict[str, Any]:
    fault: SkillFault | None = skill.fault
    return {
        "id": skill.name,
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "where": skill.where,
        "overrides": list(skill.overrides),
        "fault": {"cause": fault.cause, "cure": fault.cure} if fault else None,
    }
