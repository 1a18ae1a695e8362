"""The pieces of any LangChain chat model, in the shape that our assembler reads.

So text, reasoning, calls and their faults are treated alike, whoever the model is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk

Frame = dict[str, Any]

_FINISH: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_FILTERED: Final = frozenset(
    {"refusal", "guardrail_intervened", "blocklist", "prohibited_content", "content_filtered"}
)


def frame_of(message: AIMessage) -> Frame:
    """Return a piece, or a whole message of a model that does not stream, as one frame."""
    delta: Frame = {}
    text = message.text
    if text:
        delta["content"] = str(text)
    thinking = _reasoning(message)
    if thinking:
        delta["reasoning_content"] = thinking
    calls = _calls(message)
    if calls:
        delta["tool_calls"] = calls
    metadata = message.response_metadata
    frame: Frame = {
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_of(metadata)}],
        "model": metadata.get("model_name") or metadata.get("model"),
        "id": metadata.get("request_id") or metadata.get("id"),
    }
    return frame


def finish_of(metadata: Mapping[str, Any]) -> str | None:
    """Return why the turn ended, in the words our assembler knows; None where it goes on."""
    for key in _FINISH:
        reason = metadata.get(key)
        if isinstance(reason, str) and reason:
            return "content_filter" if reason.lower() in _FILTERED else reason
    return None


def usage_of(usage: Mapping[str, Any] | None) -> Frame | None:
    """Return LangChain's counts by the names of the wire."""
    if not usage:
        return None
    read = usage.get("input_token_details") or {}
    written = usage.get("output_token_details") or {}
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {
            "cached_tokens": read.get("cache_read"),
            "cache_creation_tokens": read.get("cache_creation"),
        },
        "completion_tokens_details": {"reasoning_tokens": written.get("reasoning")},
    }


def _calls(message: AIMessage) -> list[Frame]:
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        return [
            _call(one["id"], one["name"], one["args"], one.get("index"))
            for one in message.tool_call_chunks
        ]
    whole = [
        # Each has an index of its own: two calls with one id stay two calls.
        _call(one["id"], one["name"], json.dumps(one["args"], default=str), index)
        for index, one in enumerate(message.tool_calls)
    ]
    broken = [
        _call(one["id"], one["name"], one["args"] or "", len(whole) + index)
        for index, one in enumerate(message.invalid_tool_calls)
    ]
    return whole + broken


def _call(id: str | None, name: str | None, arguments: str | None, index: Any) -> Frame:
    place = {"index": index} if isinstance(index, int) else {}
    return {"id": id, "function": {"name": name, "arguments": arguments}, **place}


def _reasoning(message: AIMessage) -> str:
    said = message.additional_kwargs.get("reasoning_content")
    if isinstance(said, str) and said:
        return said
    if isinstance(message.content, str):
        return ""
    return "".join(_thought(one) for one in message.content if isinstance(one, dict))


def _thought(block: Mapping[str, Any]) -> str:
    """Return the reasoning in a block of content, as the big providers write it."""
    if block.get("type") not in ("thinking", "reasoning"):
        return ""
    for key in ("thinking", "reasoning"):
        if isinstance(block.get(key), str):
            return block[key]
    summary = block.get("summary")
    parts = summary if isinstance(summary, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
