"""Makes the messages that stand for results of calls, also of calls that never ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage, ToolMessage

from core.ids import derived_id
from nodes.view import TURN, group
from tools.result import Outcome, failed, for_model

CLOSED = "This call was not carried out: the run ended before it."


def result_id(turn_id: str, call_id: str) -> str:
    """Return the id of a call's result: a repeat after a crash replaces, never doubles."""
    return derived_id("result", turn_id, call_id)


def result_message(
    turn_id: str,
    call: Mapping[str, Any],
    outcome: Outcome,
    *,
    limit: int,
    duration_ms: int = 0,
    whole: str | None = None,
) -> ToolMessage:
    """Return a call's result as it enters the history.

    Args:
        turn_id: the message that asked for it; a call id alone may come again in another turn.
        call: the call with `id` and `name`.
        outcome: how it ended.
        limit: characters that the model is shown.
        duration_ms: how long it took.
        whole: how the model can read the rest, where there is more.
    """
    return ToolMessage(
        for_model(outcome, limit, whole),
        tool_call_id=call["id"],
        name=call["name"] or "unnamed",
        id=result_id(turn_id, call["id"]),
        additional_kwargs={TURN: turn_id},
        status="success" if outcome.status == "completed" else "error",
        artifact={
            "tool": call["name"],
            "status": outcome.status,
            "full": outcome.full,
            "error": outcome.error,
            "duration_ms": duration_ms,
            "sources": list(outcome.sources),
        },
    )


def closing_results(
    messages: Sequence[AnyMessage], reason: str = CLOSED, status: str = "cancelled"
) -> list[ToolMessage]:
    """Return a result for every call that has none, so that the history is whole again.

    Args:
        messages: the stored conversation.
        reason: what the model and the user are told.
        status: status in the artifact; the model sees `failed`.
    """
    closing: list[ToolMessage] = []
    for entry in group(messages):
        for call, result in entry.chosen:
            if result is None:
                turn_id = str(entry.head and entry.head.id)
                message = result_message(turn_id, call, failed(reason), limit=4_000)
                message.artifact["status"] = status
                if any(other.id == message.id for other in (*entry.results, *closing)):
                    # Two calls of one turn with one id, as only foreign histories have them.
                    message.id = result_id(turn_id, f"{call['id']} {len(closing)}")
                closing.append(message)
    return closing
