"""How a thread is left whole when its run was cancelled, failed or reached a limit."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from nodes.results import CLOSED, closing_results, result_id
from nodes.review import INTERNAL

__all__ = ["CLOSED", "GO_ON_AS", "INTERNAL", "SETTLE_AS", "result_id", "settling_messages"]

SETTLE_AS = "finish"
"""Node in whose name the messages are written: after it nothing is left to do."""

GO_ON_AS = "summarise"
"""Node in whose name a thread goes on: after it, in every agent's graph, the model is asked."""


def settling_messages(
    messages: Sequence[AnyMessage],
    *,
    partial: AIMessage | None = None,
    reason: str = CLOSED,
    status: str = "cancelled",
) -> list[AIMessage | ToolMessage]:
    """Return what closes the thread: the text shown so far, and a result for every open call.

    Write it with `aupdate_state(config, {"messages": …}, as_node=SETTLE_AS)`.

    Args:
        messages: the stored conversation, results of this drive included.
        partial: what was shown of an unfinished turn; its calls are dropped.
        reason: what model and user are told about calls that never ran.
        status: status of those calls in the artifact.
    """
    closing: list[AIMessage | ToolMessage] = list(closing_results(messages, reason, status))
    if partial is not None and partial.text.strip():
        closing.append(partial.model_copy(update={"tool_calls": [], "invalid_tool_calls": []}))
    return closing
