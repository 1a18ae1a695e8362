"""Builds the product from its parts, in the one order that is safe, and takes it apart again.

Settings, extensions and models are checked before the database is touched. Whatever was
opened is closed in reverse, also when the start fails or is cancelled half-way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from api.app import create_app
from api.services import Services
from core import faults
from core.clock import Clock
from core.errors import ConfigError, Fault
from core.log import get_logger, setup_logging
from core.registry import Assembly, Registry
from core.settings import Loaded, Settings
from identity.service import Identity
from providers.registry import ModelRegistry
from runtime.environment import RuntimeEnvironment
from runtime.registry import assemble
from sandbox.files import FileLimits, LocalFileStores
from server import extensions
from server.health import Health
from storage.database import Database
from storage.embedded import EmbeddedPostgres
from storage.migrate import migrate

log = get_logger(__name__)

STATIC: Final = Path(__file__).resolve().parent.parent / "static"
"""The built workbench."""
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Product:
    """Everything that was opened."""

    app: ASGIApp
    environment: RuntimeEnvironment
    identity: Identity
    database: Database


@asynccontextmanager
async def opened(loaded: Loaded, clock: Clock) -> AsyncIterator[Product]:
    """Give the product, ready to serve, for as long as the block lasts.

    Raises:
        ConfigError: with every fault of settings and extensions; nothing was started.
        Unavailable: the database cannot be reached or is newer than this version.
    """
    settings = loaded.settings
    prepare_process(loaded)
    assembly, models = checked(settings, clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        url = await stack.enter_async_context(database_url(settings, clock))
        await migrate(url)
        database = await stack.enter_async_context(database_at(url, settings))
        identity = Identity(database, settings, clock)
        environment = await stack.enter_async_context(
            RuntimeEnvironment(settings, database, models, assembly, file_stores(settings), clock)
        )
        health = Health(loaded, database, environment, assembly, models, STATIC)
        app = create_app(
            Services(
                settings=settings,
                clock=clock,
                identity=identity,
                runs=environment.runs,
                sessions=environment.sessions,
                preferences=environment.preferences,
                agents=environment.agents,
                models=models,
                health=health.parts,
                static=STATIC,
                version=version("graphwright"),
            )
        )
        yield Product(app, environment, identity, database)


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


def checked(settings: Settings, clock: Clock) -> tuple[Assembly, ModelRegistry]:
    """Load extensions and models and check them together; touches nothing else.

    Raises:
        ConfigError: with every fault.
    """
    registry = Registry()
    extensions.load(registry)
    found: list[Fault] = []
    assembly: Assembly | None = None
    models: ModelRegistry | None = None
    try:
        assembly = assemble(
            registry,
            settings.hitl_tools,
            extensions=registry.extensions,
            disabled=registry.disabled,
        )
    except ConfigError as error:
        found += error.faults
    try:
        models = ModelRegistry(settings, clock)
    except ConfigError as error:
        found += error.faults
    if assembly is None or models is None:
        raise ConfigError(found)
    return assembly, models


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
    try:
        yield cluster.url
    finally:
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


def file_stores(settings: Settings) -> LocalFileStores:
    """Return the store of all projects' files."""
    limits = FileLimits(
        file=settings.max_upload_mb * _MEGABYTE, project=settings.project_quota_mb * _MEGABYTE
    )
    return LocalFileStores(settings.data_dir, limits)
