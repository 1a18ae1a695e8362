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
from api.ext import faults_of
from api.services import Services
from core.clock import Clock
from core.errors import ConfigError, Fault
from core.registry import Assembly, Registry
from core.settings import Loaded, Settings
from identity.service import Identity
from providers.registry import DEMO, ModelRegistry
from runtime.environment import RuntimeEnvironment
from runtime.providing import providers_of
from runtime.registry import assemble
from sandbox.files import FileLimits, LocalFileStores
from server import extensions, opening
from server.health import Health
from storage.database import Database
from storage.migrate import migrate

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
    models: ModelRegistry


@asynccontextmanager
async def opened(loaded: Loaded, clock: Clock) -> AsyncIterator[Product]:
    """Give the product, ready to serve, for as long as the block lasts.

    Raises:
        ConfigError: with every fault of settings and extensions; nothing was started.
        Unavailable: the database cannot be reached or is newer than this version.
    """
    settings = loaded.settings
    opening.prepare_process(loaded)
    assembly, models = checked(settings, clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        url = await stack.enter_async_context(opening.database_url(settings, clock))
        await migrate(url)
        database = await stack.enter_async_context(opening.database_at(url, settings))
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
                skills=environment.skills,
                models=models,
                health=health.parts,
                static=STATIC,
                version=version("graphwright"),
            ),
            assembly.routers,
        )
        yield Product(app, environment, identity, database, models)


def checked(settings: Settings, clock: Clock) -> tuple[Assembly, ModelRegistry]:
    """Load extensions and models and check them together; touches nothing else.

    Raises:
        ConfigError: with every fault.
    """
    registry = Registry()
    folders = (extensions.BUNDLED, *settings.extensions_path)
    extensions.load(registry, folders, extensions.installed())
    found: list[Fault] = faults_of(registry.routers)
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
        models = _models(registry, settings, clock)
    except ConfigError as error:
        found += error.faults
    if found or assembly is None or models is None:
        raise ConfigError(found)
    return assembly, models


def _models(registry: Registry, settings: Settings, clock: Clock) -> ModelRegistry:
    """Make the models; where the chosen provider is broken, that is told with the assembly."""
    providers = providers_of(registry.model_providers, [])
    declared = {said.name for said in registry.model_providers}
    if settings.model_provider in declared - {spec.name for spec in providers}:
        settings = settings.model_copy(update={"model_provider": DEMO})
    return ModelRegistry(settings, clock, providers)


def file_stores(settings: Settings) -> LocalFileStores:
    """Return the store of all projects' files."""
    limits = FileLimits(
        file=settings.max_upload_mb * _MEGABYTE, project=settings.project_quota_mb * _MEGABYTE
    )
    return LocalFileStores(settings.data_dir, limits)
