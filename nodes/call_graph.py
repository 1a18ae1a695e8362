"""Hands the conversation to a graph of an extension and takes what it added."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langgraph.errors import GraphRecursionError
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import GraphGaveNothing, Invalid, StepLimit, TimeBudget
from core.events import Thinking
from core.ids import derived_id
from nodes.results import closing_results
from nodes.state import State, loop_of, messages_of, summary_of
from nodes.view import Views

CALL_GRAPH = "call_graph"

GraphNode = Callable[[State, Runtime[RunContext]], Awaitable[dict[str, Any]]]


def graph_caller(inner: Any) -> GraphNode:
    """Return the node that runs `inner`, a compiled graph whose state has `messages`.

    The messages it added come back under ids of this run: those of a foreign graph may be
    anything, and the same in every run.
    """

    async def call_graph(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Run the graph to its end.

        Raises:
            Invalid: the session is in plan mode, which a foreign graph does not know.
            StepLimit: it took more steps than a run may.
            TimeBudget: it took longer than a run may.
            GraphGaveNothing: it ended without an answer.
        """
        ctx = runtime.context
        if ctx.mode == "plan":
            message = f"{ctx.agent.label} is a graph of its own and knows no plan mode."
            raise Invalid(message, details={"cure": "Set the session's mode to act."})
        ctx.emit(Thinking(message="Thinking", cn_agent=ctx.agent.label))
        given = _given(state)
        known = {message.id for message in given}
        try:
            async with asyncio.timeout(_seconds_left(ctx)):
                result = await inner.ainvoke(
                    {"messages": given}, {"recursion_limit": ctx.limits.steps or 1}
                )
        except GraphRecursionError as error:
            raise StepLimit(details={"steps": ctx.limits.steps}) from error
        except TimeoutError as error:
            if not ctx.limits.seconds or (_seconds_left(ctx) or 0) > 0:
                raise
            raise TimeBudget(details={"seconds": ctx.limits.seconds}) from error
        added = [
            in_run(ctx.run_id, message)
            for message in result["messages"]
            if message.id not in known and isinstance(message, AIMessage | ToolMessage)
        ]
        added += closing_results(added)
        last = next((one for one in reversed(added) if isinstance(one, AIMessage)), None)
        if last is None or not last.text.strip():
            raise GraphGaveNothing(f"{ctx.agent.label} ended without an answer.")
        return {"messages": added, "loop": loop_of(state), "decisions": {}}

    return call_graph


def in_run(run_id: str, message: Any) -> Any:
    """Return a foreign graph's message under the id that it has in this run."""
    own: dict[str, Any] = {"id": derived_id(run_id, str(message.id))}
    if isinstance(message, ToolMessage):
        failed = message.status == "error"
        # What the graph's own tools put there may have any shape.
        own["artifact"] = {
            "tool": message.name or "",
            "status": "failed" if failed else "completed",
            "full": message.text,
            "error": message.text if failed else None,
            "sources": [],
        }
    return message.model_copy(update=own)


def _seconds_left(ctx: RunContext) -> float | None:
    worked = ctx.seconds_before + ctx.clock.monotonic() - ctx.started
    return ctx.limits.seconds - worked if ctx.limits.seconds else None


def _given(state: State) -> list[Any]:
    """Return the conversation as the model would see it, without our own system prompt."""
    view = Views().build(messages_of(state), "", summary_of(state))
    return [one for one in view if not isinstance(one, SystemMessage) or one.text.strip()]
