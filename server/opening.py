"""Opens what commands of the server need; what scripts need too is in `runtime.opening`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from core.clock import Clock
from core.settings import Loaded
from identity.service import Identity
from runtime.opening import database_at, database_url, prepare_process
from storage.migrate import migrate

__all__ = ["database_at", "database_url", "identity_alone", "prepare_process"]


@asynccontextmanager
async def identity_alone(loaded: Loaded, clock: Clock) -> AsyncIterator[Identity]:
    """Give keys and links without starting anything else, beside a running server or not.

    Raises:
        ConfigError: settings have faults.
        Unavailable: the database cannot be reached.
    """
    prepare_process(loaded)
    settings = loaded.settings
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(database_url(settings, clock))
        await migrate(url)
        database = await stack.enter_async_context(database_at(url, settings))
        yield Identity(database, settings, clock)
