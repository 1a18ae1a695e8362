"""Counts the model calls of an extension's graph that works on a delegated task.

Its text is shown to nobody, so what it used cannot be read off the stream of tokens.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import LLMResult

from core.context import RunContext
from core.errors import ModelCallLimit, TimeBudget, TokenBudget
from core.tokens import estimate_text, provider_counts


class ModelCalls(BaseCallbackHandler):
    """Hears of each model call within the graph, whichever model it asks."""

    raise_error = True
    run_inline = True

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._loop = asyncio.get_running_loop()
        self._calls = 0
        self._tokens = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        """Let a model be asked while the budgets of sub-run and run allow it."""
        self._check()

    def on_llm_start(self, *_: Any, **__: Any) -> None:
        """Let a model without messages be asked likewise."""
        self._check()

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Count what a call took; where the provider told nothing, its output is estimated."""
        for batch in response.generations:
            for generation in batch[:1]:
                message = getattr(generation, "message", None)
                self._count(message, generation.text)

    # Helpers ----------------------------------------------------------------------------

    def _check(self) -> None:
        ctx, limits = self._ctx, self._ctx.limits
        if limits.seconds and ctx.seconds_worked() >= limits.seconds:
            raise TimeBudget(details={"seconds": limits.seconds})
        if limits.tokens and self._tokens >= limits.tokens:
            raise TokenBudget(details={"tokens": limits.tokens})
        if self._calls >= limits.model_calls:
            raise ModelCallLimit(details={"model_calls": limits.model_calls})
        if ctx.delegation is not None:
            ctx.delegation.check_budgets()
        self._calls += 1

    def _count(self, message: Any, text: str) -> None:
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        counts = provider_counts(usage) if usage else {"output_tokens": estimate_text(text)}
        self._tokens += counts.get("input_tokens", 0) + counts["output_tokens"]
        model = message.response_metadata.get("model_name") if message is not None else None
        told = {
            "model": str(model or ""),
            "usage_source": "provider" if usage else "estimate",
            **counts,
        }
        # Sync models work in threads of their own.
        self._loop.call_soon_threadsafe(self._ctx.usage.add, "turn", told)
