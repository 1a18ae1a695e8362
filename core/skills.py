"""Skills as everybody knows them: what one is, where it came from, and what is wrong with it.

A skill is a folder with a `SKILL.md`: instructions for one kind of work, and files to go with them
(SKILL-01). Reading them happens in `tools/skills/`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from core.errors import NotFound

SkillSource = Literal["built-in", "extension", "workspace", "user"]
"""Where a skill lies; of two with one name the later of these wins."""


@dataclass(frozen=True, slots=True)
class SkillFault:
    """Why a skill cannot be used, and what mends it. Names no path of the machine."""

    cause: str
    cure: str


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, by its front matter only."""

    name: str
    description: str
    source: SkillSource
    where: str = ""
    """What brought it, for people: the extension, or nothing."""
    overrides: tuple[SkillSource, ...] = ()
    """Sources whose skill of the same name it stands in front of, nearest last."""
    fault: SkillFault | None = None
    """Set where it cannot be used."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """A skill, loaded."""

    skill: Skill
    text: str
    """The instructions: `SKILL.md` without its front matter."""
    first_line: int
    """Number of the line of `SKILL.md` on which the instructions begin, counted from 1."""
    files: Sequence[tuple[str, int]]
    """Virtual path and bytes of the files beside it."""


class SkillShelf(Protocol):
    """The skills that one user has at one moment."""

    @property
    def skills(self) -> Sequence[Skill]:
        """By name; those that are broken too."""
        ...

    async def load(self, name: str) -> SkillText:
        """Return a skill's instructions.

        Raises:
            NotFound: there is no skill of this name; the message names the nearest one.
            Invalid: the skill is broken; the message says how and what mends it.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmptyShelf:
    """The shelf of whoever has no skills."""

    skills: Sequence[Skill] = ()

    async def load(self, name: str) -> SkillText:
        """Find nothing; see `SkillShelf`."""
        raise unknown_skill(name, ())


def unknown_skill(name: str, known: Sequence[str]) -> NotFound:
    """Return the error for a name that no skill has, with the nearest one that is there."""
    shown = name[:80] or "(no name)"
    nearest = _nearest(name, known)
    hint = f" Did you mean {nearest}?" if nearest else ""
    if not known:
        hint = " There are no skills."
    details = {"nearest": nearest, "known": sorted(known)[:50]}
    return NotFound(f"There is no skill named {shown}.{hint}", details=details)


def _nearest(name: str, known: Sequence[str]) -> str | None:
    said = name.casefold().replace("_", "-")
    # A name that something was glued to, such as `pdf，请…` or `pdf:`.
    begun = [one for one in known if said.startswith(one)]
    if begun:
        return max(begun, key=len)
    found = difflib.get_close_matches(said[:64], known, n=1, cutoff=0.5)
    return found[0] if found else None
