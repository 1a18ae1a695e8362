"""A task that is carried on after a crash is asked about unless it had begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from core.context import SubRun
from core.hooks import HookRun, HookSpec
from nodes.hooked_task import given_task
from tools.hooks import RunHooks

RUN = HookRun(
    run_id="r",
    session_id="s",
    trace_id="t",
    workspace_id="w",
    user_id="u",
    user="ann",
    agent="chief",
    mode="full",
)
CALL = {"name": "delegate", "id": "d1", "args": {"agent": "worker", "task": "work"}}


@pytest.mark.req("EXT-10", "EXEC-41")
async def test_only_a_task_without_a_saved_state_is_asked_about_again():
    asked: list[str] = []
    inner = StateGraph(MessagesState)
    inner.add_node("wait", lambda _: {"messages": [("ai", interrupt("why?"))]})
    inner.add_edge(START, "wait")
    spec = HookSpec(
        name="look",
        point="sub_run.before",
        function=lambda event: asked.append(event.task),
        timeout=5,
        on_error="fail",
        agents=None,
        observes=True,
        extension="acme",
        fingerprint="",
    )
    ctx: Any = SimpleNamespace(hooks=RunHooks([spec], RUN), tools={})
    worker: Any = SimpleNamespace(agent=SimpleNamespace(name="worker", label="Worker"))
    # Watchers saw it begin: after a crash nothing else is known of a task that had not begun.
    sub = SubRun(worker, inner.compile(), {}, resumed=True)

    async def carry(_: Any) -> dict[str, Any]:
        call, outcome, broken = await given_task(sub, CALL, ctx)
        assert (call, outcome, broken) == (CALL, None, None)
        await sub.graph.ainvoke({"messages": [("user", "work")]})
        return {}

    outer = StateGraph(MessagesState)
    outer.add_node("carry", carry)
    outer.add_edge(START, "carry")
    graph = outer.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    first: Any = {"messages": [("user", "go")]}
    assert (await graph.ainvoke(first, config))["__interrupt__"]
    assert asked == ["work"]
    assert (await graph.ainvoke(None, config))["__interrupt__"]
    assert asked == ["work"]
