"""Opens what every process needs: logs and the database. Imports little of the rest."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from core import faults
from core.clock import Clock
from core.errors import ConfigError, Fault
from core.log import Handler, get_logger, setup_logging
from core.masking import learn
from core.settings import Loaded, Settings
from runtime.keyrings import check_keys, keys_of
from storage.database import Database
from storage.embedded import EmbeddedPostgres

log = get_logger(__name__)


def prepare_process(loaded: Loaded) -> None:
    """Set up what the whole process shares: logging, and the tests' fault points."""
    settings = loaded.settings
    setup_logging(settings.log_level, settings.log_format)
    for warning in loaded.warnings():
        log.warning(warning)
    arm_faults(settings)


def prepare_script(loaded: Loaded) -> None:
    """Set up what a script has not set up itself: its own logging is left alone.

    Warnings and worse are shown unless LOG_LEVEL says otherwise: what a script prints is what
    its reader wants to see.
    """
    settings = loaded.settings
    if all(isinstance(handler, Handler) for handler in logging.getLogger().handlers):
        hook, thread_hook = sys.excepthook, threading.excepthook
        given = "log_level" in settings.model_fields_set
        setup_logging(settings.log_level if given else "WARNING", settings.log_format)
        sys.excepthook, threading.excepthook = hook, thread_hook
    for warning in loaded.warnings():
        log.warning(warning)
    arm_faults(settings)


def arm_faults(settings: Settings) -> None:
    """Arm the fault points that tests ask for.

    Raises:
        ConfigError: there is no such point.
    """
    try:
        faults.arm(settings.faults)
    except ValueError as error:
        fault = Fault("GW_FAULTS", f"{error}.", "Leave it empty; it is for tests.")
        raise ConfigError([fault]) from error


@asynccontextmanager
async def database_url(settings: Settings, clock: Clock) -> AsyncGenerator[str]:
    """Give the address of a running database: `DATABASE_URL`, or the data folder's own cluster.

    Raises:
        ConfigError: the data folder is no folder.
        Unavailable: the cluster cannot be started; the message says what to do.
    """
    url = settings.database_url.get_secret_value()
    if url:
        yield url
        return
    _check_folder(settings.data_dir)
    cluster = await EmbeddedPostgres.start(settings.data_dir, say=log.info, clock=clock)
    learn(cluster.url)
    keeper = asyncio.create_task(cluster.keep(say=log.warning), name="embedded PostgreSQL")
    try:
        yield cluster.url
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await cluster.leave(say=log.info)


@asynccontextmanager
async def database_at(url: str, settings: Settings) -> AsyncGenerator[Database]:
    """Give the connections to a database that is migrated.

    Raises:
        ConfigError: the encryption keys are missing or no keys.
        Unavailable: it cannot be reached.
    """
    keys = await asyncio.to_thread(keys_of, settings)
    database = await Database.open(url, pool_size=settings.db_pool_size, keys=keys)
    try:
        await check_keys(database, settings)
        yield database
    finally:
        await database.close()


def _check_folder(place: Path) -> None:
    if place.exists() and not place.is_dir():
        what = f"{place} is a file; the database and the files of users need a folder."
        raise ConfigError(
            [Fault("GW_DATA_DIR", what, "Name a folder, or one that is not there yet.")]
        )
