"""How large a request is: the provider's last count, and an estimate of what came since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from core.context import RunContext
from core.tokens import PER_MESSAGE, estimate_text

__all__ = [
    "PER_MESSAGE",
    "counted",
    "estimate_text",
    "size_of",
    "size_of_all",
    "size_of_tools",
    "usable_window",
]


def size_of(message: BaseMessage) -> int:
    """Return about how many tokens one message takes."""
    tokens = PER_MESSAGE + estimate_text(message.text)
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            args = call["args"]
            text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
            tokens += PER_MESSAGE + estimate_text(f"{call['name']}{text}")
    return tokens


def size_of_all(messages: Sequence[BaseMessage]) -> int:
    """Return about how many tokens the messages take together."""
    return sum(size_of(message) for message in messages)


def size_of_tools(schemas: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many tokens the declarations of tools take."""
    return sum(estimate_text(json.dumps(schema, ensure_ascii=False)) for schema in schemas)


def usable_window(ctx: RunContext) -> int:
    """Return the tokens a request may carry: the window less the room for the answer."""
    window = ctx.limits.context_limit or ctx.model.context_window
    return window - min(ctx.model.max_output, window // 4)


def counted(messages: Sequence[AnyMessage], summary: Mapping[str, Any]) -> int | None:
    """Return the last request's real count plus an estimate of what was added since (EXEC-14).

    None where no turn carries a count that still tells the size: nothing was answered yet, or
    the view was shortened since.
    """
    added = 0
    for message in reversed(messages):
        if message.id == summary.get("usage_after"):
            return None
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        if usage and usage["input_tokens"] > 0:
            return usage["input_tokens"] + usage["output_tokens"] + added
        added += size_of(message)
    return None
