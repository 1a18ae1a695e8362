"""Lets the agent load a skill when a task fits it: the second of the three levels (SKILL-01)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from core.tooling import ToolContext, define_tool
from tools.skills.index import cut_rows

_MOST_CHARS: Final = 12_000
"""Leaves room for the list of files below the limit of results."""
_MOST_FILES: Final = 40


@define_tool(group="skills", label="加载技能", idempotent=True)
async def load_skill(
    ctx: ToolContext, name: Annotated[str, Field(min_length=1, max_length=200)]
) -> dict[str, Any]:
    """Load the instructions of a skill named in the prompt's index, before doing what it is for.

    The result also names the skill's files; read those with `read_file` when the text says so.

    Args:
        ctx: handed in by the server.
        name: the skill's name, as the index has it.
    """
    loaded = await ctx.skills.load(name)
    text, cut = cut_rows(loaded.text, _MOST_CHARS)
    result: dict[str, Any] = {
        "name": loaded.skill.name,
        "source": loaded.skill.source,
        "instructions": text,
        "files": [{"path": path, "size": size} for path, size in loaded.files[:_MOST_FILES]],
    }
    if cut is not None:
        result["read_on"] = {
            "path": f"/skills/{loaded.skill.name}/SKILL.md",
            "first_line": loaded.first_line + cut,
        }
    if len(loaded.files) > _MOST_FILES:
        result["more_files"] = f"list_files /skills/{loaded.skill.name} recursive shows all"
    return result
