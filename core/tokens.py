"""Token counts as a provider tells them, and estimates where it tells none (EXEC-14).

Four ASCII characters count as one token, a character of a two-byte script as half a token, a
CJK character as one. That is near enough to decide when to summarise, errs to the high side
for prose, and needs no vocabulary of any model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langchain_core.messages.ai import UsageMetadata

PER_MESSAGE: Final = 4
"""Tokens that the frame of one message takes."""


def estimate_text(text: str) -> int:
    """Return the estimated tokens of a text; 0 only for an empty one."""
    if not text:
        return 0
    if text.isascii():
        return (len(text) + 3) // 4
    extra = len(text.encode("utf-8", "replace")) - len(text)
    wide = min(extra // 2, len(text))
    return (len(text) - wide + 3) // 4 + wide


def provider_counts(usage: UsageMetadata) -> dict[str, int]:
    """Return what a provider told of one model call, by the names of `core.events.Usage`."""
    return {
        "input_tokens": usage["input_tokens"],
        "output_tokens": usage["output_tokens"],
        "cached_tokens": (usage.get("input_token_details") or {}).get("cache_read") or 0,
        "reasoning_tokens": (usage.get("output_token_details") or {}).get("reasoning") or 0,
    }


def estimate_request(
    messages: Iterable[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()
) -> int:
    """Return the estimated tokens of encoded messages and tools; never 0."""
    total = 3
    for message in messages:
        total += PER_MESSAGE + estimate_text(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            total += PER_MESSAGE + estimate_text(function["name"])
            total += estimate_text(function["arguments"])
    if tools:
        total += estimate_text(json.dumps(list(tools), ensure_ascii=False))
    return total
