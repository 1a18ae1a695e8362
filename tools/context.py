"""What one tool call is told and may use; the object behind `core.tooling.ToolContext`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from core.components import MOST_PER_CALL
from core.context import RunContext
from core.errors import ToolFailed
from core.events import Event, Progress, Todo
from core.ports import FileStore
from core.principal import Principal
from core.skills import SkillShelf
from tools.cards import card_of


class CallContext:
    """One call's view of its run. Safe to use from the thread of a sync tool."""

    def __init__(self, ctx: RunContext, tool_call_id: str) -> None:
        self.principal: Principal = ctx.principal
        self.session_id = ctx.session_id
        self.run_id = ctx.run_id
        self.tool_call_id = tool_call_id
        self.agent = ctx.agent.name
        self.files: FileStore = ctx.files
        self.skills: SkillShelf = ctx.skills
        self.clock = ctx.clock
        self.todos: list[Todo] | None = None
        """The plan, where the tool set one."""
        self.components: list[dict[str, Any]] = []
        """The cards it showed."""
        self.run = ctx
        """The run, for what carries the call out."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell the user how far the work is."""
        if fraction is not None:
            fraction = min(max(fraction, 0.0), 1.0)
        self._emit(Progress(message=message[:500], fraction=fraction))

    def _emit(self, event: Event) -> None:
        if threading.get_ident() == self._thread:
            self.run.emit(event)
        else:
            # Events are put into the journal on the loop; a sync tool runs beside it.
            self._loop.call_soon_threadsafe(self.run.emit, event)

    def component(self, component_type: str, data: Mapping[str, Any]) -> str:
        """Show a card; see `core.tooling.ToolContext.component`."""
        event = card_of(self.run.components, component_type, data, self._place())
        if len(self.components) >= MOST_PER_CALL:
            raise ToolFailed(f"One call may show {MOST_PER_CALL} components.")
        self.components.append(event.model_dump(mode="json"))
        self._emit(event)
        return event.component_id

    def _place(self) -> tuple[str, ...]:
        """Return what tells one card from another: a repeat of the call shows the same ones."""
        return ("component", self.run_id, self.tool_call_id, str(len(self.components)))

    def set_todos(self, todos: Sequence[Mapping[str, str]]) -> None:
        """Replace the run's plan."""
        self.todos = [Todo.model_validate(dict(todo)) for todo in todos]
