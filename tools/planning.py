"""Keeps the agent's list of things to do."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.tooling import ToolContext, define_tool


class TodoItem(BaseModel):
    """One line of the plan."""

    model_config = ConfigDict(extra="forbid")

    content: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "completed"] = "pending"


@define_tool(group="talk", label="更新计划", idempotent=True)
async def update_plan(
    ctx: ToolContext, todos: Annotated[list[TodoItem], Field(max_length=50)]
) -> dict[str, Any]:
    """Replace the list of things to do that the user sees.

    Use it for work of three steps or more. Always pass the whole list; keep one item in
    progress, and mark items completed as soon as they are.

    Args:
        ctx: handed in by the server.
        todos: every item with `content` and `status` (pending, in_progress, completed).
    """
    plain = [todo.model_dump() for todo in todos]
    ctx.set_todos(plain)
    return {"todos": plain}
