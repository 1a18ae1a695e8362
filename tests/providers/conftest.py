"""Fixtures of the provider tests: a model on the scripted server, and a sink that remembers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from core.clock import Clock, SystemClock
from core.ports import ModelHandle
from core.settings import Settings
from providers.registry import ModelRegistry
from tests.support.scripted_server import ScriptedServer

KEY = "sk-canary-0123456789abcdef"


@dataclass
class Shown:
    """A sink that remembers what was shown."""

    pieces: list[tuple[str, str, str]] = field(default_factory=list)

    def token(self, message_id: str, text: str) -> None:
        self.pieces.append(("token", message_id, text))

    def thinking(self, message_id: str, text: str) -> None:
        self.pieces.append(("thinking", message_id, text))

    def reset(self, message_id: str, reason: str) -> None:
        self.pieces.append(("reset", message_id, reason))

    def joined(self, kind: str = "token") -> str:
        return "".join(text for name, _, text in self.pieces if name == kind)


MakeModel = Callable[..., ModelHandle]


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
async def make_model(scripted: ScriptedServer) -> AsyncIterator[MakeModel]:
    """Give a maker of models: settings by field name; no retries unless asked for."""
    registries: list[ModelRegistry] = []

    def make(clock: Clock | None = None, **fields: object) -> ModelHandle:
        given = {
            "openai_base_url": scripted.base_url,
            "openai_model": "scripted",
            "openai_api_key": KEY,
            "openai_max_retries": 0,
            **fields,
        }
        registries.append(ModelRegistry(Settings(**given), clock or SystemClock()))
        return registries[-1].get(None)

    yield make
    for registry in registries:
        await registry.aclose()


@pytest.fixture
def model(make_model: MakeModel) -> ModelHandle:
    """A model on the scripted server that tries once."""
    return make_model()
