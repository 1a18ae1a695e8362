"""The agent graph's state, and what a run is begun with."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import HumanMessage

from nodes.state import ChatState, fresh_loop

__all__ = ["ChatState", "begin", "fresh_loop"]


def begin(message: HumanMessage) -> dict[str, Any]:
    """Return the graph input of a run; the message carries its id already."""
    return {"messages": [message], "loop": fresh_loop(str(message.id))}
