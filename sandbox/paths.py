"""Virtual paths: the only way anybody outside names a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import PathRefused
from sandbox.names import check_name

WORKSPACE: Final = "workspace"
HISTORY: Final = "conversation_history"
ROOTS: Final = (WORKSPACE, HISTORY)
"""The folders of a project on disk."""
SKILLS: Final = "skills"
"""The folders of skills, which lie elsewhere and can only be read; see `tools/skills/files.py`."""

MAX_DEPTH: Final = 32
MAX_PATH_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class VirtualPath:
    """A checked place below one of the roots; no parts means the root itself."""

    root: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "/" + "/".join((self.root, *self.parts))

    def child(self, name: str) -> VirtualPath:
        """Return the place of that (checked) name inside this folder."""
        return VirtualPath(self.root, (*self.parts, name))


def parse(path: str, roots: Sequence[str] = ROOTS) -> VirtualPath:
    """Check a path and take it apart; a relative one lies under `/workspace/`.

    Args:
        path: as somebody wrote it.
        roots: the folders at the top that there are.

    Raises:
        PathRefused: it is not a plain path under a known root.
    """
    if not path:
        raise PathRefused("The path is empty. Use one such as /workspace/notes.md.")
    # Cut before anything is looked at character by character: the text may be megabytes long.
    if len(path) > MAX_PATH_BYTES:
        raise PathRefused(f"The path is longer than {MAX_PATH_BYTES} bytes.")
    absolute = path.startswith("/")
    names = path[1:].split("/") if absolute else path.split("/")
    if len(names) > 1 and names[-1] == "":
        names.pop()  # `/workspace/` and `/workspace` name the same folder
    parts = tuple(check_name(name) for name in names)
    root = WORKSPACE
    if absolute:
        root, parts = parts[0], parts[1:]
    if root not in roots:
        known = ", ".join(f"/{name}/" for name in roots)
        raise PathRefused(f"The path lies outside of what there is: {known}.")
    found = VirtualPath(root, parts)
    if len(parts) > MAX_DEPTH or len(str(found).encode()) > MAX_PATH_BYTES:
        raise PathRefused(f"The path is deeper than {MAX_DEPTH} folders or too long.")
    return found
