"""Starts conversations with agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.graphs.talk import Talk
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
async def talk_with(scripted: ScriptedServer, tmp_path: Path) -> AsyncIterator[Callable[..., Talk]]:
    """Start a conversation; options are those of `Talk`."""
    begun: list[Talk] = []

    def start(**options: Any) -> Talk:
        begun.append(Talk(scripted, tmp_path, **options))
        return begun[-1]

    yield start
    for talk in begun:
        await talk.models.aclose()
