"""Puts questions to the model on behalf of nodes: the request, its size, its price."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from core.context import RunContext
from core.tokens import provider_counts
from nodes.policed import viewed
from nodes.prompt import system_prompt
from nodes.state import State, messages_of, summary_of
from nodes.tokens import (
    counted,
    estimate_text,
    size_of,
    size_of_all,
    size_of_tools,
    usable_window,
)
from nodes.view import Views

_WINDOWS = 4
_NONSENSE = 20
"""So many windows, and so many times our estimate, make a provider's count incredible."""


def request_of(state: State, ctx: RunContext) -> list[BaseMessage]:
    """Return the messages of the next turn's request."""
    system = system_prompt(ctx.agent, ctx.mode, ctx.prompt)
    if ctx.policies.view is not None:
        return viewed(ctx.policies.view, ctx, messages_of(state), (system, summary_of(state)))
    views = ctx.drive.memo.get("views")
    if not isinstance(views, Views):
        views = ctx.drive.memo["views"] = Views()
    return views.build(messages_of(state), system, summary_of(state))


def schemas_of(ctx: RunContext) -> list[dict[str, Any]]:
    """Return the declarations of the agent's tools, in the agent's order."""
    return [ctx.tools[name].openai() for name in ctx.agent.tools if name in ctx.tools]


def request_size(state: State, ctx: RunContext) -> int:
    """Return how many tokens the next turn's request takes, as far as that is known."""
    known = counted(messages_of(state), summary_of(state))
    if known is not None and known <= _WINDOWS * usable_window(ctx):
        return known
    guess = size_of_all(request_of(state, ctx)) + size_of_tools(schemas_of(ctx))
    # A provider that took the request and counts far more than any window counts nonsense.
    return guess if known is None or known > _NONSENSE * guess else known


def count_usage(
    ctx: RunContext, purpose: str, request: list[BaseMessage], answer: AIMessage
) -> int:
    """Record what a model call took and return its tokens."""
    usage = answer.usage_metadata
    source = str(answer.response_metadata.get("usage_source") or "provider")
    if usage is None:
        source = "estimate"
        counts = {"input_tokens": size_of_all(request), "output_tokens": size_of(answer)}
    else:
        counts = provider_counts(usage)
    model = str(answer.response_metadata.get("model") or ctx.model.name)
    ctx.usage.add(purpose, {"model": model, "usage_source": source, **counts})
    return counts["input_tokens"] + counts["output_tokens"]


def short_enough(text: str, tokens: int) -> str:
    """Cut a text to about that many tokens, keeping its beginning and end."""
    if estimate_text(text) <= tokens:
        return text
    keep = max(int(len(text) * tokens / estimate_text(text)), 20)
    return f"{text[: keep * 3 // 4]}\n… left out …\n{text[-(keep // 4) :]}"


class Asking:
    """Asks the run's model on behalf of a policy, and counts what that takes."""

    def __init__(
        self, ctx: RunContext, purpose: str, message_id: str, max_tokens: int | None = None
    ) -> None:
        """Prepare for any number of questions; their answers are never shown."""
        self.spent = 0
        """Tokens so far."""
        self._ctx, self._purpose = ctx, purpose
        self._message_id, self._max_tokens = message_id, max_tokens

    async def ask(self, rules: str, text: str) -> str:
        """Return the model's answer.

        Raises:
            ProviderError: the model failed.
        """
        request: list[BaseMessage] = [SystemMessage(rules), HumanMessage(text)]
        answer = await self._ctx.model.ask(
            request, message_id=self._message_id, max_tokens=self._max_tokens
        )
        self.spent += count_usage(self._ctx, self._purpose, request, answer)
        return str(answer.text)
