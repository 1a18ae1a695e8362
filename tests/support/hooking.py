"""Registers hooks as an extension does, and reads what came of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from core.events import StoredEvent
from core.registry import Registry
from tests.runtime.conftest import Bench, Ground


def use(bench: Bench, *hooks: tuple[str, Callable[[Any], Any]], **options: Any) -> None:
    """Register hooks as the extension `acme` does."""

    def setup(registry: Registry) -> None:
        registry.extension = "acme"
        for point, function in hooks:
            registry.register_hook(point, function, **options)

    bench.setup = setup


def named(events: Sequence[StoredEvent], kind: str) -> list[dict[str, Any]]:
    return [dict(event.data) for event in events if event.type == kind]


def sent_args(ground: Ground) -> list[dict[str, Any]]:
    """Return the arguments of all calls in the last request to the model."""
    messages = ground.scripted.requests[-1].messages
    asked = [one for message in messages for one in message.get("tool_calls") or ()]
    return [json.loads(one["function"]["arguments"]) for one in asked]
