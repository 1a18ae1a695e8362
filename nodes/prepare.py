"""First step of a run: closes what an earlier run left open and starts the counters."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from nodes.results import closing_results
from nodes.state import State, fresh_loop, loop_of, messages_of, summary_of


async def prepare(state: State) -> dict[str, Any]:
    """Close dangling calls and begin with fresh counters.

    The stored order may then be call, user message, late result; the model's view puts each
    result behind its call whatever the order.
    """
    messages = messages_of(state)
    before = loop_of(state)
    loop = fresh_loop(before["began"])
    if before["within"]:
        loop |= {"within": before["within"], "plan_approved": before["within"]["plan_approved"]}
    update: dict[str, Any] = {"loop": loop, "decisions": {}}
    closing = closing_results(messages)
    if closing:
        update["messages"] = closing
    if not summary_of(state) and not any(isinstance(one, AIMessage) for one in messages):
        update["todos"] = []
    return update
