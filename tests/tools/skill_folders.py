"""Folders of skills as people make them."""

from __future__ import annotations

from pathlib import Path

from core.principal import Principal
from core.types import UserId, WorkspaceId
from tools.skills.library import SkillLibrary

ANN = Principal(WorkspaceId("w1"), UserId("ann"), "ann", "script")
BOB = Principal(WorkspaceId("w1"), UserId("bob"), "bob", "script")


def put(folder: Path, name: str, description: str = "Does it.", body: str = "Do it.") -> Path:
    """Write a sound skill and return its folder."""
    made = folder / name
    made.mkdir(parents=True, exist_ok=True)
    text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
    (made / "SKILL.md").write_text(text, encoding="utf-8")
    return made


class Places:
    """The places of skills below one folder, and the library that knows them."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.built_in = root / "built-in"
        self.brought = root / "ext" / "skills"
        for folder in (self.built_in, self.brought):
            folder.mkdir(parents=True)
        brought = [(self.brought, "weather/extension.py")]
        self.library = SkillLibrary(self.built_in, brought, self.data)

    def of(self, who: Principal) -> Path:
        """Return a user's own folder."""
        return self.data / "workspaces" / who.workspace_id / who.user_id / "skills"
