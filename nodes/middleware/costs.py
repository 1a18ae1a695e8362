"""Counts the tokens of models that middleware ask on their own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.tracers.context import register_configure_hook

from core.context import RunContext
from core.tokens import provider_counts

_counter: ContextVar[UsageMetadataCallbackHandler | None] = ContextVar(
    "graphwright_middleware_usage", default=None
)
register_configure_hook(_counter, inheritable=True)


@dataclass(slots=True)
class Spent:
    """What was counted, once the block has ended."""

    tokens: int = 0


@contextmanager
def counting(ctx: RunContext) -> Generator[Spent]:
    """Record what LangChain models inside take, whoever made them."""
    handler, spent = UsageMetadataCallbackHandler(), Spent()
    token = _counter.set(handler)
    try:
        yield spent
    finally:
        _counter.reset(token)
        for model, usage in handler.usage_metadata.items():
            counts = provider_counts(usage)
            spent.tokens += counts["input_tokens"] + counts["output_tokens"]
            ctx.usage.add("middleware", {"model": model, "usage_source": "provider", **counts})


@contextmanager
def counted_elsewhere() -> Generator[None]:
    """Leave out the model calls inside: whoever makes them counts them."""
    token = _counter.set(None)
    try:
        yield
    finally:
        _counter.reset(token)
