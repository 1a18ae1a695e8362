"""The fixture `scripted`: a strict scripted provider of the test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    """Start a scripted provider and stop it after the test."""
    server = ScriptedServer().start()
    yield server
    server.stop()
