"""How an extension brings a model provider: what it registers, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class ModelConnection:
    """What the settings say of the model, for the factory of a provider."""

    model: str
    """OPENAI_MODEL; may be empty."""
    base_url: str
    """OPENAI_BASE_URL; may be empty."""
    api_key: SecretStr
    """OPENAI_API_KEY; `get_secret_value()` gives it out."""
    connect_timeout: float
    """Seconds to wait for a connection."""
    idle_timeout: float
    """Seconds without anything after which an answer counts as lost."""


ProviderFactory = Callable[[ModelConnection], Any]
"""Makes a LangChain chat model, or a `core.ports.ModelHandle`."""


class ProviderDeclaration(NamedTuple):
    """A model provider as registered, unchecked."""

    name: str
    factory: ProviderFactory
    where: str
    extension: str


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A model provider whose declaration passed every check; not called yet."""

    name: str
    factory: ProviderFactory
    where: str
    extension: str
