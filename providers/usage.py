"""Token counts out of what providers report, and estimates where they report nothing usable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.types import UsageSource


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of one model call. None: the provider did not say."""

    input: int | None = None
    output: int | None = None
    cached: int = 0
    cache_creation: int = 0
    reasoning: int = 0


def read(usage: Any) -> Counts | None:
    """Return the counts in a provider's usage object, or None where it has none."""
    if not isinstance(usage, Mapping):
        return None
    prompt = _number(usage, "prompt_tokens", "input_tokens")
    completion = _number(usage, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        return None
    before = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    after = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    return Counts(
        # A prompt of no tokens does not exist: it would switch every limit off (L18).
        prompt or None,
        completion,
        _number(before, "cached_tokens") or _number(usage, "prompt_cache_hit_tokens") or 0,
        _number(before, "cache_creation_tokens") or 0,
        _number(after, "reasoning_tokens") or 0,
    )


def metadata(
    counts: Counts | None, input_estimate: int, output_estimate: int
) -> tuple[dict[str, Any], UsageSource]:
    """Return LangChain's `usage_metadata` and where the numbers came from.

    Args:
        counts: what the provider reported.
        input_estimate: tokens of the request, for where it reported none.
        output_estimate: tokens of the answer, likewise.
    """
    counts = counts or Counts()
    missing = counts.input is None or counts.output is None
    if counts.output == 0 and output_estimate:
        missing, counts = True, Counts(counts.input, None, counts.cached, counts.cache_creation)
    prompt = input_estimate if counts.input is None else counts.input
    completion = output_estimate if counts.output is None else counts.output
    return {
        "input_tokens": prompt,
        "output_tokens": completion,
        "total_tokens": prompt + completion,
        "input_token_details": {
            "cache_read": min(counts.cached, prompt),
            "cache_creation": counts.cache_creation,
        },
        "output_token_details": {"reasoning": min(counts.reasoning, completion)},
    }, "estimate" if missing else "provider"


def _number(fields: Any, *names: str) -> int | None:
    if not isinstance(fields, Mapping):
        return None
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
            return int(value)
    return None
