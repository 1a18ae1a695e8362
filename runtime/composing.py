"""Puts settings, extensions and models together, before anything is opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.clock import Clock
from core.errors import ConfigError, Fault
from core.registry import Assembly, Registry
from core.settings import Settings
from providers.registry import DEMO, ModelRegistry
from runtime import extending
from runtime.providing import providers_of
from runtime.registry import assemble
from runtime.tidying import tidied
from sandbox.files import FileLimits, LocalFileStores

_MEGABYTE: Final = 1 << 20


def registered(settings: Settings) -> Registry:
    """Return what all extensions registered, their faults among it."""
    registry = Registry()
    folders = (extending.BUNDLED, *settings.extensions_path)
    extending.load(registry, folders, extending.installed())
    return registry


def composed(
    settings: Settings, clock: Clock, registry: Registry, further: Sequence[Fault] = ()
) -> tuple[Assembly, ModelRegistry]:
    """Check extensions and models together; touches nothing else.

    Args:
        settings: the whole configuration.
        clock: time, for the models.
        registry: what the extensions registered.
        further: faults that the caller found itself.

    Raises:
        ConfigError: with every fault.
    """
    found = list(further)
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
        models = _models(tidied(registry), settings, clock)
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
