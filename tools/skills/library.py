"""All skills of the product, put together for one user: later sources win (SKILL-01)."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from core.errors import FileMissing, Invalid, PathRefused, TooLarge
from core.principal import Principal
from core.skills import Skill, SkillFault, SkillText, unknown_skill
from sandbox.paths import SKILLS, VirtualPath
from tools.skills.sources import MANIFEST, Shelved, Source

MOST_FILES: Final = 200
"""Files of a skill that are listed when it is loaded."""

_KEPT_USERS: Final = 1_000
"""Users whose skills stay in memory."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class Shelf:
    """The skills of one user at one moment; see `core.skills.SkillShelf`."""

    def __init__(self, shelved: Sequence[Shelved]) -> None:
        """Take skills by name, one of each."""
        self._shelved = {one.skill.name: one for one in shelved}
        self.skills: Sequence[Skill] = tuple(one.skill for one in shelved)

    async def load(self, name: str) -> SkillText:
        """Return a skill's instructions, as they were when this shelf was filled.

        Raises:
            NotFound: there is no skill of this name; the message names the nearest one.
            Invalid: the skill is broken; the message says how and what mends it.
        """
        found = self.find(name)
        files = await asyncio.to_thread(_files_of, found)
        return SkillText(found.skill, found.body, found.first_line, files)

    def find(self, name: str) -> Shelved:
        """Return a sound skill with the place of its files; raises as `load` does."""
        found = self._shelved.get(name)
        if found is None:
            raise unknown_skill(name, [one.name for one in self.skills if one.fault is None])
        fault = found.skill.fault
        if fault is not None:
            message = f"The skill {name} is broken: {fault.cause} {fault.cure}"
            raise Invalid(message, details={"cause": fault.cause, "cure": fault.cure})
        return found


class SkillLibrary:
    """Knows where skills lie and fills shelves. Reading happens in threads."""

    def __init__(
        self, built_in: Path, extensions: Sequence[tuple[Path, str]], data_dir: Path
    ) -> None:
        """Take the places; nothing is read yet.

        Args:
            built_in: the folder of skills that come with the product.
            extensions: further folders, each with the extension that brought it.
            data_dir: below it every user has `workspaces/<workspace>/<user>/skills/`.
        """
        self._shared = [
            Source("built-in", str(built_in), trusted=True),
            *(Source("extension", str(at), where=by, trusted=True) for at, by in extensions),
        ]
        self._base = str(data_dir.resolve() / "workspaces")
        self._users: OrderedDict[tuple[str, str], Source] = OrderedDict()

    async def shelf(self, principal: Principal) -> Shelf:
        """Return what this user has now."""
        sources = [*self._shared, *self._own(principal)]
        return Shelf(await asyncio.to_thread(_together, sources))

    async def faults(self) -> list[tuple[str, SkillFault]]:
        """Return what is wrong with skills of the product and its extensions, by place."""
        return await asyncio.to_thread(self._faults)

    async def own_fault(self, principal: Principal) -> SkillFault | None:
        """Return what was wrong with the user's whole folder at the last look."""
        own = self._own(principal)
        return own[0].fault if own else None

    # Helpers ----------------------------------------------------------------------------

    def _own(self, principal: Principal) -> list[Source]:
        """Return the user's source; none for ids that are no names of folders."""
        key = (str(principal.workspace_id), str(principal.user_id))
        if not all(_ID.match(name) for name in key):
            return []
        source = self._users.get(key)
        if source is None:
            source = self._users[key] = Source("user", self._base, (*key, SKILLS))
        self._users.move_to_end(key)
        if len(self._users) > _KEPT_USERS:
            self._users.popitem(last=False)
        return [source]

    def _faults(self) -> list[tuple[str, SkillFault]]:
        found: list[tuple[str, SkillFault]] = []
        for source in self._shared:
            place = source.where or source.kind
            shelved = source.read()
            if source.fault is not None:
                found.append((place, source.fault))
            found += [
                (f"{place}: {one.skill.name}", one.skill.fault)
                for one in shelved
                if one.skill.fault is not None
            ]
        return found


def _together(sources: Sequence[Source]) -> list[Shelved]:
    """Return one skill of each name, by name.

    A broken one wins too: what its owner meant must not be replaced in silence.
    """
    found: dict[str, Shelved] = {}
    for source in sources:
        for one in source.read():
            below = found.get(one.skill.name)
            if below is not None:
                overrides = (*below.skill.overrides, below.skill.source)
                one = replace(one, skill=replace(one.skill, overrides=overrides))  # noqa: PLW2901
            found[one.skill.name] = one
    return [found[name] for name in sorted(found)]


def _files_of(shelved: Shelved) -> list[tuple[str, int]]:
    try:
        entries = shelved.source.entries(VirtualPath(shelved.skill.name, ()), recursive=True)
    except (FileMissing, PathRefused, TooLarge):
        return []  # removed or replaced just now; reading them will say so
    files = [entry for entry in entries if entry.kind == "file"]
    own = f"/{shelved.skill.name}/{MANIFEST}"
    return [(f"/{SKILLS}{one.path}", one.size) for one in files if one.path != own][:MOST_FILES]
