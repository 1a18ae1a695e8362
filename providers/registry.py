"""Gives out models by name: the configured one, and the demo model that is always there."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from core.clock import Clock
from core.errors import ConfigError, Fault, Invalid
from core.masking import learn
from core.ports import ModelHandle
from core.providing import ProviderSpec
from core.settings import Settings
from providers.connection import OPENAI, Connection, fault_of_url
from providers.demo import DemoHandle
from providers.handle import WireHandle
from providers.made import made_by
from providers.retry import Retries
from providers.windows import UNKNOWN, reserve_of, window_of

DEMO: Final = "demo"

BUILT_IN_PROVIDERS: Final = frozenset({"openai", "demo"})
"""Names that MODEL_PROVIDER may always have: any OpenAI-compatible API, and the demo model."""


class ModelRegistry:
    """The models of this process. Implements `core.ports.Models`."""

    def __init__(
        self, settings: Settings, clock: Clock, providers: Sequence[ProviderSpec] = ()
    ) -> None:
        """Make the handles; nothing is opened or imported before the first question.

        Args:
            settings: which model is asked, and through which provider.
            clock: time.
            providers: those that extensions brought; only the one that is named is called.

        Raises:
            ConfigError: OPENAI_BASE_URL is not an address that can be asked, or the provider
                that MODEL_PROVIDER names is not there or makes no model.
        """
        self._connection = _connection(settings, clock)
        self._handles: dict[str, ModelHandle] = {}
        wanted = settings.model_provider
        if wanted not in BUILT_IN_PROVIDERS:
            made = made_by(_named(wanted, providers), settings, clock)
            self._handles[made.name] = made
        elif settings.openai_model and wanted != DEMO:
            self._handles[settings.openai_model] = _handle(settings, self._connection)
        self._handles.setdefault(DEMO, DemoHandle(clock, settings.context_limit or UNKNOWN))

    def get(self, name: str | None) -> ModelHandle:
        """Return the model, or the default one for `None`.

        Raises:
            Invalid: no such model is configured.
        """
        if name is None:
            return next(iter(self._handles.values()))
        handle = self._handles.get(name)
        if handle is None:
            raise Invalid(
                f"There is no model {name!r} here. Models: {', '.join(self._handles)}.",
                details={"field": "model", "models": self.names()},
            )
        return handle

    def names(self) -> list[str]:
        """Return the models that may be asked for, the default one first."""
        return list(self._handles)

    async def warm(self) -> None:
        """Import what the default model needs and open its client, before anybody waits for it."""
        handle = self.get(None)
        if isinstance(handle, WireHandle):
            await handle.langchain()
            await self._connection.client()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()


def _named(wanted: str, providers: Sequence[ProviderSpec]) -> ProviderSpec:
    found = {spec.name: spec for spec in providers}
    if wanted in found:
        return found[wanted]
    known = sorted({*found, *BUILT_IN_PROVIDERS})
    near = difflib.get_close_matches(wanted, known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    cure = f"{hint}Known providers: {', '.join(known)}."
    raise ConfigError([Fault("MODEL_PROVIDER", f"There is no model provider {wanted!r}.", cure)])


def _connection(settings: Settings, clock: Clock) -> Connection:
    url = settings.openai_base_url.strip() or OPENAI
    if fault := fault_of_url(url):
        cure = "Write it like https://api.openai.com/v1 or http://127.0.0.1:8080/v1."
        raise ConfigError([Fault("OPENAI_BASE_URL", f"{fault}.", cure)])
    learn(settings.openai_api_key.get_secret_value())
    return Connection(
        name=urlsplit(url).netloc,
        base_url=url,
        key=settings.openai_api_key,
        clock=clock,
        connect_timeout=settings.model_connect_timeout,
        idle_timeout=settings.model_idle_timeout,
    )


def _handle(settings: Settings, connection: Connection) -> WireHandle:
    window, known = window_of(settings.openai_model, settings.context_limit)
    return WireHandle(
        name=settings.openai_model,
        provider=connection.name,
        connection=connection,
        retries=Retries(settings.openai_max_retries, settings.model_max_wait),
        context_window=window,
        max_output=reserve_of(window),
        window_known=known,
    )
