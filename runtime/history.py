"""Visible messages, with the results of their calls put where they belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from core.records import MessageRecord, ToolResultRecord
from runtime.parts import PREVIEW
from storage.work import UnitOfWork


async def shown(work: UnitOfWork, messages: Sequence[MessageRecord]) -> list[dict[str, Any]]:
    """Return messages of one session, which the caller has read, as people see them."""
    asked = [one.id for one in messages if any(p["type"] == "tool_call" for p in one.parts)]
    results: dict[tuple[str, str], ToolResultRecord] = {}
    if asked:
        for result in await work.tool_results.of_session(messages[0].session_id, asked):
            results[result.message_id, result.tool_call_id] = result
    return [_message(message, results) for message in messages]


def _message(
    message: MessageRecord, results: Mapping[tuple[str, str], ToolResultRecord]
) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if part["type"] != "tool_call":
            parts.append(part)
            continue
        parts.append(_call(message.id, part, results))
        # Cards stand behind the call that showed them; each says itself that it is one.
        parts += _cards(message.id, part["tool_call_id"], results)
    return asdict(message) | {"parts": parts}


def _cards(
    message_id: str, call_id: str, results: Mapping[tuple[str, str], ToolResultRecord]
) -> list[dict[str, Any]]:
    """Return the cards of a call, and of the calls of an agent that worked on it."""
    return [
        card
        for result in results.values()
        if result.message_id == message_id
        and call_id in (result.tool_call_id, result.meta.get("within"))
        for card in result.meta.get("components") or ()
    ]


def _call(
    message_id: str,
    part: dict[str, Any],
    results: Mapping[tuple[str, str], ToolResultRecord],
) -> dict[str, Any]:
    """Return a call with its result and, where another agent carried it out, what that did."""
    call_id = part["tool_call_id"]
    shown = part | {"result": _result(results.get((message_id, call_id)))}
    within = [
        {
            "type": "tool_call",
            "tool_call_id": result.tool_call_id,
            "tool": result.tool,
            "cn_tool": result.meta["cn_tool"],
            "args": result.meta["args"],
            "agent_id": result.meta["agent_id"],
            "result": _result(result),
        }
        for result in results.values()
        if result.message_id == message_id and result.meta.get("within") == call_id
    ]
    return shown | {"activity": within} if within else shown


def _result(result: ToolResultRecord | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {
        "status": result.status,
        "preview": result.content[:PREVIEW],
        "error": result.error,
        "duration_ms": result.duration_ms,
        # Whether the preview is everything; the rest is fetched by message and call.
        "full": len(result.content) <= PREVIEW,
    }
