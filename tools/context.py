"""What one tool call is told and may use; the object behind `core.tooling.ToolContext`."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from core.components import MOST_PER_CALL
from core.context import RunContext
from core.errors import ToolFailed
from core.events import Event, Progress, Todo
from core.ids import derived_id
from core.masking import mask_known, mask_known_value
from core.ports import FileStore
from core.principal import Principal
from core.skills import SkillShelf
from core.text import clean, clean_value
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
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        """A tool may tell and show things from several threads."""
        self._open = True

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell the user how far the work is."""
        # A tool may pass anything here, and an event that cannot be stored would end the run.
        said = mask_known(clean(str(message)))[:500]
        part: float | None = None
        if isinstance(fraction, int | float) and math.isfinite(fraction):
            part = min(max(float(fraction), 0.0), 1.0)
        with self._lock:
            if self._open:
                self._emit(Progress(message=said, fraction=part))

    def component(self, component_type: str, data: Mapping[str, Any]) -> str:
        """Show a card; see `core.tooling.ToolContext.component`."""
        event = card_of(self._ctx.components, component_type, data)
        with self._lock:
            if not self._open:
                raise ToolFailed("This call has ended, so that it can show nothing more.")
            if len(self.components) >= MOST_PER_CALL:
                raise ToolFailed(f"One call may show {MOST_PER_CALL} components.")
            # A repeat of the call after a crash shows the same cards.
            place = ("component", self.run_id, self.tool_call_id, str(len(self.components)))
            event = event.model_copy(update={"component_id": derived_id(*place)})
            self.components.append(event.model_dump(mode="json"))
            self._emit(event)
        return event.component_id

    def set_todos(self, todos: Sequence[Mapping[str, str]]) -> None:
        """Replace the run's plan."""
        try:
            plan = [
                Todo.model_validate(mask_known_value(clean_value(dict(todo)))) for todo in todos
            ]
        except (ValidationError, TypeError, ValueError):
            raise ToolFailed("A plan is a list of items with `content` and `status`.") from None
        with self._lock:
            if self._open:
                self.todos = plan

    def close(self) -> None:
        """Take nothing more: a tool that was left alone in its thread cannot add to its result."""
        with self._lock:
            self._open = False

    def _emit(self, event: Event) -> None:
        if threading.get_ident() == self._thread:
            self._ctx.emit(event)
        else:
            # Events are put into the journal on the loop; a sync tool runs beside it.
            self._loop.call_soon_threadsafe(self._ctx.emit, event)
