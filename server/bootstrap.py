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
from core.registry import Assembly
from core.settings import Loaded, Settings
from identity.service import Identity
from providers.registry import ModelRegistry
from runtime.composing import composed, file_stores, registered
from runtime.environment import Kind, Runtime
from server import opening
from server.health import Health
from storage.database import Database
from storage.migrate import migrate

STATIC: Final = Path(__file__).resolve().parent.parent / "static"
"""The built workbench."""


@dataclass(frozen=True, slots=True)
class Product:
    """Everything that was opened."""

    app: ASGIApp
    environment: Runtime
    identity: Identity
    database: Database
    models: ModelRegistry


@dataclass(frozen=True, slots=True)
class Parts:
    """What carries out runs, without what people talk to."""

    environment: Runtime
    database: Database
    models: ModelRegistry
    assembly: Assembly


@asynccontextmanager
async def runtime(loaded: Loaded, clock: Clock, *, kind: Kind) -> AsyncIterator[Parts]:
    """Give what carries out runs, for as long as the block lasts.

    Args:
        loaded: the settings.
        clock: time.
        kind: `api` carries none out itself.

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
        files = file_stores(settings)
        environment = await stack.enter_async_context(
            Runtime(settings, database, models, assembly, files, clock, kind=kind)
        )
        yield Parts(environment, database, models, assembly)


@asynccontextmanager
async def opened(loaded: Loaded, clock: Clock) -> AsyncIterator[Product]:
    """Give the product, ready to serve, for as long as the block lasts.

    Raises:
        ConfigError: with every fault of settings and extensions; nothing was started.
        Unavailable: the database cannot be reached or is newer than this version.
    """
    settings = loaded.settings
    kind: Kind = "api" if settings.workers else "serve"
    async with runtime(loaded, clock, kind=kind) as parts:
        database, environment, models = parts.database, parts.environment, parts.models
        identity = Identity(database, settings, clock)
        health = Health(loaded, database, environment, parts.assembly, models, STATIC)
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
            parts.assembly.routers,
        )
        yield Product(app, environment, identity, database, models)


def checked(settings: Settings, clock: Clock) -> tuple[Assembly, ModelRegistry]:
    """Load extensions and models and check them together; touches nothing else.

    Raises:
        ConfigError: with every fault.
    """
    registry = registered(settings)
    return composed(settings, clock, registry, faults_of(registry.routers))
