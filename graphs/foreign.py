"""Graphs that extensions register whole: checked, and put between our first and last step."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Interrupt

from core.context import RunContext
from nodes.call_graph import CALL_GRAPH, added_by, graph_caller, messages_written
from nodes.cards import note_card
from nodes.finish import finish
from nodes.prepare import prepare
from nodes.state import ChatState

__all__ = ["added_by", "around", "as_question", "as_resumed", "built", "messages_written"]

Graph = CompiledStateGraph[Any, Any, Any, Any]

NOTE_LIMIT = 4_000
"""Characters of a question that a graph stops with; longer ones are cut."""

_AS_JSON = "(Answer with JSON; anything else is passed on as text.)"


def built(build: Callable[[], Any]) -> Graph:
    """Build a graph once and return it compiled, without a checkpointer of its own.

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
    if "messages" not in graph.channels or "messages" not in graph.output_channels:
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


def as_question(interrupt: Interrupt) -> Interrupt:
    """Return a foreign graph's interrupt as a question to the user, under the same id."""
    value = interrupt.value
    if isinstance(value, str):
        text = value[:NOTE_LIMIT] or "Go on?"
    else:
        plain = json.dumps(value, ensure_ascii=False, default=str)
        text = f"{plain[:NOTE_LIMIT]}\n\n{_AS_JSON}"
    return Interrupt(value=note_card(text), id=interrupt.id)


def as_resumed(interrupt: Interrupt, given: Mapping[str, Any]) -> Any:
    """Return what the graph's own `interrupt(…)` gives back.

    Args:
        interrupt: as the graph raised it.
        given: the checked answer. Its text counts, read as JSON where something other than a
            text was asked.
    """
    [answer] = given["answers"]
    if isinstance(interrupt.value, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return answer
