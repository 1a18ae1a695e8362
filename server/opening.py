"""Opens what every command needs: logs, the database, keys. Imports nothing of the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from core import faults
from core.clock import Clock
from core.errors import ConfigError, Fault
from core.log import get_logger, setup_logging
from core.settings import Loaded, Settings
from identity.service import Identity
from storage.database import Database
from storage.embedded import EmbeddedPostgres
from storage.migrate import migrate

log = get_logger(__name__)


def prepare_process(loaded: Loaded) -> None:
    """Set up what the whole process shares: logging, and the tests' fault points."""
    settings = loaded.settings
    setup_logging(settings.log_level, settings.log_format)
    for warning in loaded.warnings():
        log.warning(warning)
    try:
        faults.arm(settings.faults)
    except ValueError as error:
        fault = Fault("GW_FAULTS", f"{error}.", "Leave it empty; it is for tests.")
        raise ConfigError([fault]) from error


@asynccontextmanager
async def database_url(settings: Settings, clock: Clock) -> AsyncIterator[str]:
    """Give the address of a running database: `DATABASE_URL`, or the data folder's own cluster.

    Raises:
        Unavailable: the cluster cannot be started; the message says what to do.
    """
    url = settings.database_url.get_secret_value()
    if url:
        yield url
        return
    cluster = await EmbeddedPostgres.start(settings.data_dir, say=log.info, clock=clock)
    keeper = asyncio.create_task(cluster.keep(say=log.warning), name="embedded PostgreSQL")
    try:
        yield cluster.url
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await cluster.leave(say=log.info)


@asynccontextmanager
async def database_at(url: str, settings: Settings) -> AsyncIterator[Database]:
    """Give the connections to a database that is migrated.

    Raises:
        Unavailable: it cannot be reached.
    """
    database = await Database.open(url, pool_size=settings.db_pool_size)
    try:
        yield database
    finally:
        await database.close()


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
