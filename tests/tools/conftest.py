"""What tool tests share: a tool made of a function, and a context to call it in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.clock import FakeClock
from core.principal import Principal
from core.skills import EmptyShelf
from core.tooling import ToolSpec, define_tool
from core.types import UserId, WorkspaceId
from sandbox.files import FileLimits, LocalFileStores
from tools.resolve import resolve

ALICE = Principal(WorkspaceId("w1"), UserId("alice"), "alice", "script")


class Context:
    """A tool's context outside a run."""

    def __init__(self, data_dir: Path) -> None:
        stores = LocalFileStores(data_dir, FileLimits(file=100_000, project=1_000_000))
        self.principal = ALICE
        self.session_id, self.run_id, self.tool_call_id, self.agent = "s", "r", "c", "assistant"
        self.files = stores.open(ALICE, "p1", "s")
        self.archive = stores.archive(ALICE, "p1")
        self.skills = EmptyShelf()
        self.clock = FakeClock()
        self.told: list[tuple[str, float | None]] = []
        self.todos: list[Any] = []

    def progress(self, message: str, fraction: float | None = None) -> None:
        self.told.append((message, fraction))

    def set_todos(self, todos: Any) -> None:
        self.todos = list(todos)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path)


def tool(function: Callable[..., Any], **options: Any) -> ToolSpec:
    """Return the checked tool of a function, which must have no fault."""
    if not hasattr(function, "__graphwright_tool__"):
        options.setdefault("summary", "Does something.")
        function = define_tool(**options)(function)
    spec, faults = resolve(function, "test")
    assert faults == []
    assert spec is not None
    return spec
