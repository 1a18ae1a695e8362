"""The agent loop: prepare, summarise, call model, approve, run tools, observe, review (EXEC-01)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from core.context import RunContext
from core.tooling import AgentSpec
from graphs.foreign import around
from graphs.routes import (
    after_answer,
    after_approve,
    after_last_answer,
    after_observe,
    after_review,
    room,
)
from nodes.approve import approve
from nodes.call_model import call_model
from nodes.finish import finish
from nodes.observe import observe
from nodes.prepare import prepare
from nodes.review import review
from nodes.run_tool import run_tool
from nodes.state import ChatState
from nodes.summarise import summarise

NO_LIMIT = 1_000_000
"""LangGraph's own limit would cut between a call and its result; `Limits.steps` is ours."""

Graph = CompiledStateGraph[Any, Any, Any, Any]


def agent_graph(agent: AgentSpec, checkpointer: Any = None) -> Graph:
    """Return the agent's graph, ready to be driven with a `RunContext` as context.

    Args:
        agent: whose graph it is.
        checkpointer: where its steps are saved; one saver object per run.
    """
    config: dict[str, Any] = {
        "recursion_limit": NO_LIMIT,
        # Tool calls are the only tasks that run side by side.
        "max_concurrency": agent.parallel_calls,
    }
    return _graph(agent).copy({"checkpointer": checkpointer, "config": config})


def mermaid(agent: AgentSpec) -> str:
    """Return the drawing of the agent's graph."""
    drawn = agent.graph if agent.graph is not None else _graph(agent)
    return drawn.get_graph().draw_mermaid()


def _graph(agent: AgentSpec) -> Graph:
    if agent.graph is not None:
        return around(agent.graph)
    if agent.middleware is None:
        return _compiled(agent.review)
    # Only agents with middleware pay for LangChain's import.
    from graphs.middleware import compiled

    return compiled(agent.review, agent.middleware)


@lru_cache(maxsize=2)
def _compiled(review_answers: bool) -> Graph:
    """Compile once: agents differ in what their runs carry, not in the steps."""
    graph: Any = StateGraph(ChatState, context_schema=RunContext)
    graph.add_node("prepare", prepare)
    graph.add_node("summarise", summarise)
    graph.add_node("call_model", call_model)
    graph.add_node("approve", approve)
    graph.add_node("run_tool", run_tool)
    graph.add_node("observe", observe)
    graph.add_node("finish", finish)
    graph.add_edge(START, "prepare")
    graph.add_conditional_edges("prepare", room, ["summarise", "call_model"])
    graph.add_edge("summarise", "call_model")
    answered = "review" if review_answers else "finish"
    if review_answers:
        graph.add_node("review", review)
        graph.add_conditional_edges(
            "review", after_review, ["approve", "summarise", "call_model", "finish"]
        )
    graph.add_conditional_edges(
        "call_model",
        after_answer if review_answers else after_last_answer,
        ["summarise", "call_model", "approve", answered],
    )
    graph.add_conditional_edges("approve", after_approve, ["run_tool", "summarise", "call_model"])
    graph.add_edge("run_tool", "observe")
    graph.add_conditional_edges("observe", after_observe, ["approve", "summarise", "call_model"])
    graph.add_edge("finish", END)
    return graph.compile()
