"""The product, served on loopback with the scripted provider as its model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.stage import house, provider, stage
from tests.scenarios.talk import Talk
from tests.support.app import provider_settings, served_product
from tests.support.scripted_server import ScriptedServer

__all__ = ["house", "provider", "stage"]

Opener = Callable[..., AbstractAsyncContextManager[Talk]]


@pytest.fixture
def open_served(database_url: str, tmp_path: Path, scripted: ScriptedServer) -> Opener:
    """Start the product with further settings; may be called again on the same database."""

    @asynccontextmanager
    async def start(**settings: Any) -> AsyncIterator[Talk]:
        provider = provider_settings(scripted.base_url)
        options = {**provider, "hitl_tools": "calculate", **settings}
        async with (
            served_product(database_url, tmp_path, **options) as served,
            served.client() as client,
        ):
            yield Talk(served, client, tmp_path)

    return start


@pytest.fixture
async def served(open_served: Opener) -> AsyncIterator[Talk]:
    """The product with `calculate` as the tool that needs approval."""
    async with open_served() as running:
        yield running
