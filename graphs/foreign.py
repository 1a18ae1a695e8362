"""Graphs that extensions register whole: checked, and put between our first and last step."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from core.context import RunContext
from nodes.call_graph import CALL_GRAPH, added_by, graph_caller, messages_written
from nodes.finish import finish
from nodes.foreign_cards import as_resumed, carded
from nodes.prepare import prepare
from nodes.state import ChatState

__all__ = ["added_by", "around", "as_resumed", "built", "carded", "messages_written"]

Graph = CompiledStateGraph[Any, Any, Any, Any]


def built(build: Callable[[], Any], *, shaped: bool = False) -> Graph:
    """Build a graph once and return it compiled, without a checkpointer of its own.

    Args:
        build: makes it.
        shaped: whether it takes an object of its own in place of a conversation.

    Raises:
        TypeError: it is no graph.
        ValueError: it is a graph that cannot be run as an agent.
        Exception: whatever building it raises.
    """
    graph = build()
    if isinstance(graph, StateGraph):
        graph = graph.compile()
    if not isinstance(graph, CompiledStateGraph):
        name = type(graph).__name__
        raise TypeError(f"build() gave {name}, not a StateGraph or a compiled graph.")
    has_messages = "messages" in graph.channels and "messages" in graph.output_channels
    if not shaped and not has_messages:
        raise ValueError("The graph's state or its output has no `messages`.")
    if graph.interrupt_before_nodes or graph.interrupt_after_nodes:
        raise ValueError(
            "It has breakpoints (interrupt_before, interrupt_after), which ask nothing."
        )
    # The run's own saver is inherited from the graph around it.
    return graph.copy({"checkpointer": None})


@lru_cache(maxsize=64)
def around(inner: Graph) -> Graph:
    """Return the graph of a run that hands the conversation to `inner`."""
    graph: Any = StateGraph(ChatState, context_schema=RunContext)
    graph.add_node("prepare", prepare)
    graph.add_node(CALL_GRAPH, graph_caller(inner))
    graph.add_node("finish", finish)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", CALL_GRAPH)
    graph.add_edge(CALL_GRAPH, "finish")
    graph.add_edge("finish", END)
    return graph.compile()
