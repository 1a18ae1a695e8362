"""The agent loop: prepare, summarise, call model, approve, run tools, observe, review (EXEC-01)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from core.context import RunContext
from core.tooling import AgentSpec
from graphs.foreign import around
from nodes.approve import approve
from nodes.call_model import call_model
from nodes.finish import finish
from nodes.observe import observe
from nodes.prepare import prepare
from nodes.review import review
from nodes.run_tool import run_tool
from nodes.sorting import signature
from nodes.state import ChatState, State, calls_of, last_turn, loop_of, messages_of, open_calls
from nodes.summarise import needs_room, summarise

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
    drawn = agent.graph if agent.graph is not None else _compiled(agent.review)
    return drawn.get_graph().draw_mermaid()


def _graph(agent: AgentSpec) -> Graph:
    return _compiled(agent.review) if agent.graph is None else around(agent.graph)


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
    graph.add_conditional_edges("prepare", _room, ["summarise", "call_model"])
    graph.add_edge("summarise", "call_model")
    answered = "review" if review_answers else "finish"
    if review_answers:
        graph.add_node("review", review)
        graph.add_conditional_edges(
            "review", _after_review, ["approve", "summarise", "call_model", "finish"]
        )
    graph.add_conditional_edges(
        "call_model",
        _after_answer if review_answers else _after_last_answer,
        ["summarise", "call_model", "approve", answered],
    )
    graph.add_conditional_edges("approve", _after_approve, ["run_tool", "summarise", "call_model"])
    graph.add_edge("run_tool", "observe")
    graph.add_conditional_edges("observe", _after_observe, ["approve", "summarise", "call_model"])
    graph.add_edge("finish", END)
    return graph.compile()


def _room(state: State, runtime: Runtime[RunContext]) -> Literal["summarise", "call_model"]:
    return "summarise" if needs_room(state, runtime.context) else "call_model"


def _after_answer(state: State) -> str:
    return _turned(state, "review")


def _after_last_answer(state: State) -> str:
    return _turned(state, "finish")


def _turned(state: State, answered: str) -> str:
    """Return where a turn leads; `answered` where it has no calls."""
    loop = loop_of(state)
    if loop["overflow"]:
        return "summarise"
    if loop["empty"]:
        return "call_model"
    turn = last_turn(messages_of(state))
    return "approve" if turn is not None and calls_of(turn) else answered


def _after_approve(state: State, runtime: Runtime[RunContext]) -> list[Send] | str:
    """Send each call that goes on to a task of its own."""
    decisions = state.get("decisions") or {}
    messages = messages_of(state)
    turn = last_turn(messages)
    if turn is None or not decisions.get("send"):
        return _room(state, runtime)
    loop = loop_of(state)
    sends: list[Send] = []
    for call in open_calls(messages):
        if call["id"] not in decisions["send"]:
            continue
        refused = decisions["refused"].get(call["id"])
        decision = {"type": "refused", **refused} if refused else None
        payload = {
            "call": call,
            "decision": decision or decisions["answers"].get(call["id"]),
            "turn": turn.id,
            "loop": {"plan_approved": loop["plan_approved"]},
            "before": loop["seen"].get(signature(call["name"], call["args"])),
        }
        sends.append(Send("run_tool", payload))
    return sends


def _after_observe(state: State, runtime: Runtime[RunContext]) -> str:
    """Go back to the calls that still wait for a decision, otherwise to the model."""
    return "approve" if open_calls(messages_of(state)) else _room(state, runtime)


def _after_review(state: State, runtime: Runtime[RunContext]) -> str:
    loop = loop_of(state)
    if loop["review"]:
        return "approve"
    if messages_of(state)[-1].type == "human":
        return _room(state, runtime)
    return "finish"
