"""The message of a turn whose end is confirmed, whoever said it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage

from core import errors, tokens
from providers import usage
from providers.assembly import Turn
from providers.calls import settle
from providers.history import call_ids

_TRUNCATED: Final = (
    "truncated: the answer hit the output limit, so nothing of it was carried out."
    " Call again with smaller pieces."
)
_READS_REFUSALS: Final = "openai"
"""The translator of LangChain that makes a refusal a content block, where middleware look for it."""

_FILTERED: Final = "stopped by the provider's content filter, so nothing of it was carried out."


def message_of(turn: Turn, request_id: str, payload: Mapping[str, Any], provider: str) -> AIMessage:
    """Make the message of a confirmed turn.

    Args:
        turn: what the provider said.
        request_id: its name of the request; empty where it gave none.
        payload: the request, with `model`, the encoded `messages` and maybe `tools`.
        provider: name of the connection.

    Raises:
        ProviderRefused: the content filter left nothing of it.
    """
    limit = payload.get("max_tokens") or payload.get("max_completion_tokens")
    truncated = turn.cut_short(limit)
    if turn.empty and turn.filtered:
        raise _filtered(turn, provider)
    not_run = _TRUNCATED if truncated else _FILTERED if turn.filtered else ""
    valid, invalid = settle(turn.joiner.calls, call_ids(payload["messages"]), not_run)
    counts, source = usage.metadata(
        turn.counts,
        tokens.estimate_request(payload["messages"], payload.get("tools") or ()),
        _estimated_output(turn),
    )
    more = {"reasoning_content": turn.thinking} if turn.thinking else {}
    return AIMessage(
        content=turn.text,
        tool_calls=valid,
        invalid_tool_calls=invalid,
        usage_metadata=counts,
        additional_kwargs={**more, "refusal": turn.text} if turn.refused else more,
        response_metadata={
            **({"model_provider": _READS_REFUSALS} if turn.refused else {}),
            "finish_reason": turn.finish,
            "model": turn.model or payload["model"],
            "provider": provider,
            "request_id": request_id,
            "usage_source": source,
            "truncated": truncated,
            "filtered": turn.filtered,
        },
    )


def _estimated_output(turn: Turn) -> int:
    said = tokens.estimate_text(turn.text) + tokens.estimate_text(turn.thinking)
    return said + sum(
        tokens.PER_MESSAGE + tokens.estimate_text(call.name) + tokens.estimate_text(call.arguments)
        for call in turn.joiner.calls
    )


def _filtered(turn: Turn, provider: str) -> errors.ProviderRefused:
    error = errors.ProviderRefused(
        f"the content filter of {provider} stopped the answer before its first word"
    )
    error.partial_text, error.partial_thinking = turn.text, turn.thinking
    error.details.update(provider=provider, finish_reason=turn.finish)
    return error
