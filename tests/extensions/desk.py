"""An extension with everything, for tests of `extensions.testing`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from extensions import Registry, ToolContext, ToolFailed, define_tool, get_service, source, sourced


@define_tool(group="desk", label="记录", requires_approval=True, side_effect="write")
async def note(text: str, ctx: ToolContext) -> Any:
    """Write a note down.

    Args:
        text: what to keep.
    """
    ctx.progress("writing", 0.5)
    await ctx.files.append("/workspace/notes.txt", f"{text}\n".encode())
    at = ctx.clock.now().date().isoformat()
    return sourced({"kept": text, "by": ctx.principal.user_name, "at": at}, [source("Notes")])


@define_tool(group="desk", idempotent=True)
def look_up(word: str) -> str:
    """Look a word up.

    Args:
        word: the word.
    """
    return str(get_service("index")[word])


@define_tool(group="desk")
def fragile(kind: str) -> str:
    """Fail in one of two ways.

    Args:
        kind: which way.
    """
    if kind == "told":
        raise ToolFailed("Try another word.")
    raise KeyError("secret of /srv/desk")


class Desk:
    """An extension with everything, and what its service went through."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @asynccontextmanager
    async def open_index(self, services: Mapping[str, Any]) -> AsyncIterator[dict[str, str]]:
        self.said.append("open")
        yield {"fan": "moves air"}
        self.said.append("closed")

    def setup(self, registry: Registry) -> None:
        registry.register_service("index", self.open_index)
        registry.register_tool(look_up, requires=["index"])
        registry.register_agent(
            "desk",
            prompt="Keep the desk tidy.",
            tools=[
                note, look_up, fragile, "read_file", "ask_user", "request_plan_approval",
                "load_skill", "update_plan",
            ],
        )  # fmt: skip
