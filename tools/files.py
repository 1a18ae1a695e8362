"""Lets the agent list, read and write the files of its session's project (WORK-10)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from core.errors import FileMissing, FileRefused, PathRefused, TooLarge, ToolFailed
from core.tooling import ToolContext, define_tool
from sandbox.text import decode

_MOST_ENTRIES = 500
_MOST_LINES = 2_000
_MOST_CHARS = 15_000
"""Stays below the limit of results, so that what is returned is never cut again."""

Path = Annotated[str, Field(min_length=1, max_length=1_000)]


@define_tool(group="files", label="列出文件", idempotent=True)
async def list_files(
    ctx: ToolContext, path: Path = "/workspace", recursive: bool = False
) -> dict[str, Any]:
    """List the files and folders in a folder of the workspace.

    Args:
        ctx: handed in by the server.
        path: the folder, such as `/workspace` or `/workspace/data`.
        recursive: also list what lies in folders below.
    """
    try:
        entries = await ctx.files.list(path, recursive=recursive)
    except FileMissing:
        if path.rstrip("/") != "/workspace":
            raise
        entries = []  # made by the first write
    shown = [
        {"path": entry.path, "kind": entry.kind, "size": entry.size}
        for entry in entries[:_MOST_ENTRIES]
    ]
    return {"entries": shown, "total": len(entries)}


@define_tool(group="files", label="读取文件", idempotent=True)
async def read_file(
    ctx: ToolContext,
    path: Path,
    first_line: Annotated[int, Field(ge=1)] = 1,
    lines: Annotated[int, Field(ge=1, le=_MOST_LINES)] = 400,
) -> dict[str, Any]:
    """Read lines of a text file.

    Also reads what was shortened or summarised away: `/conversation_history/…`, and the files of
    skills: `/skills/…`.

    Args:
        ctx: handed in by the server.
        path: the file, such as `/workspace/notes.md`.
        first_line: number of the first line wanted, counted from 1.
        lines: how many lines are wanted.
    """
    content, entry = await ctx.files.read(path)
    try:
        text, _ = decode(content)
    except FileRefused as problem:
        raise ToolFailed(problem.message) from None
    rows = text.splitlines()
    picked = rows[first_line - 1 : first_line - 1 + lines]
    if rows and not picked:
        raise ToolFailed(f"{path} has only {len(rows)} lines.")
    shown, kept = _fit(picked)
    result: dict[str, Any] = {
        "path": entry.path,
        "first_line": first_line,
        "lines": kept,
        "total_lines": len(rows),
        "content": shown,
    }
    if first_line - 1 + kept < len(rows):
        result["next_line"] = first_line + kept
    return result


@define_tool(group="files", label="写入文件", side_effect="write", idempotent=True)
async def write_file(
    ctx: ToolContext, path: Path, content: Annotated[str, Field(max_length=1_000_000)]
) -> dict[str, Any]:
    """Write a text file of the workspace, replacing it where it exists.

    Args:
        ctx: handed in by the server.
        path: the file, such as `/workspace/report.md`; folders above it are made.
        content: the whole new text.
    """
    if not path.startswith("/workspace/"):
        raise PathRefused("Files can only be written under /workspace/.")
    try:
        entry = await ctx.files.write(path, content.encode("utf-8", "replace"))
    except TooLarge as problem:
        raise ToolFailed(problem.message) from None
    return {"path": entry.path, "size": entry.size, "sha256": entry.sha256}


def _fit(rows: list[str]) -> tuple[str, int]:
    """Return as many whole rows as fit, and how many those are; a giant row is cut."""
    size = 0
    for count, row in enumerate(rows):
        size += len(row) + 1
        if size > _MOST_CHARS:
            if count == 0:
                return row[:_MOST_CHARS] + " … line cut …", 1
            return "\n".join(rows[:count]), count
    return "\n".join(rows), len(rows)
