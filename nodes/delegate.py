"""Carries out a call of `delegate`: a sub-run of another agent inside the call's own task.

The sub-run's graph saves its steps beside those of the run, under the task's own namespace, so
that it goes on where it stood after a question or a crash (EXEC-41, ADR 0021).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime

from core.context import Place, RunContext, SubRun
from core.errors import (
    CheckpointDamaged,
    InternalError,
    PolicyFailed,
    RunError,
    RunLost,
    ToolArgumentsInvalid,
)
from core.events import AgentStart
from core.ids import derived_id
from core.tooling import DELEGATE, ToolSpec
from nodes.foreign_cards import carded
from nodes.state import fresh_loop
from tools.result import Outcome, completed, failed

MOST = 8
"""Tasks that one run may give to other agents."""

SPENT = (
    f"A run may delegate {MOST} tasks, and these are used up, so this one was not carried out. "
    "Do the rest yourself, or answer with what you have."
)
NESTED = (
    "An agent that works on a delegated task cannot delegate further. Do the task yourself, or "
    "say in your answer what is left to do."
)
NO_PLAN_MODE = (
    "{label} is a graph of its own and knows no plan mode, so it was not started. Submit a plan "
    "with request_plan_approval first."
)

_OWN_ENDS = (RunLost, CheckpointDamaged, InternalError)
"""What is wrong with the run itself, not with the task."""


def sub_run_of(
    call: Mapping[str, Any], turn: str, runtime: Runtime[RunContext]
) -> SubRun | Outcome | None:
    """Return the sub-run of a call, why there is none, or None where the call is another tool's."""
    ctx = runtime.context
    spec = ctx.tools.get(call["name"])
    if spec is None or spec.kind != DELEGATE:
        return None
    try:
        args = spec.validate(call["args"])
    except ToolArgumentsInvalid as problem:
        return failed(problem.message)
    info = runtime.execution_info
    if ctx.delegation is None or info is None:
        return failed(NESTED)
    try:
        return ctx.delegation.open(ctx, args["agent"], call, Place(turn, info.task_id))
    except PolicyFailed as problem:
        return failed(f"{args['agent']} could not begin this task: {problem.message}")


async def carried_through(
    sub: SubRun, call: Mapping[str, Any], *, plan_approved: bool
) -> tuple[Outcome, dict[str, Any]]:
    """Let the sub-run go on to its end.

    Returns:
        How the call ended, and what is told of its agent's end.

    Raises:
        GraphBubbleUp: the sub-run asks something; the call is carried on with the answer.
        RunError: the run itself cannot go on.
    """
    ctx = sub.context
    started = ctx.clock.monotonic()
    if not sub.resumed:
        agent = ctx.agent
        ctx.emit(AgentStart(agent=agent.name, cn_agent=agent.label, agent_id=ctx.agent_id))
    about = {**sub.about, "cn_agent": ctx.agent.label}
    try:
        state = await _outcome(sub, call, plan_approved=plan_approved)
    except _OWN_ENDS:
        raise
    except RunError as problem:
        about["error"] = problem.message
        outcome = failed(f"{ctx.agent.label} did not finish this task: {problem.message}")
        outcome.meta["code"] = problem.code
    else:
        outcome = _answer(state["messages"], sub)
        about["context_tokens"] = state["loop"]["context_tokens"]
    about["duration_ms"] = int((ctx.clock.monotonic() - started) * 1000)
    return outcome, about


def over_the_limit(spec: ToolSpec, loop: dict[str, Any]) -> bool:
    """Count a call of `delegate` and tell whether it is one too many; others never are.

    Counted when the turn is sorted, and stored with it: neither calls that run side by side
    nor a repeat after a crash are counted twice.
    """
    if spec.kind != DELEGATE:
        return False
    if loop["delegations"] >= MOST:
        return True
    loop["delegations"] += 1
    return False


# Helpers --------------------------------------------------------------------------------


async def _outcome(sub: SubRun, call: Mapping[str, Any], *, plan_approved: bool) -> dict[str, Any]:
    """Run the agent's graph on a conversation of its own: the task and nothing else."""
    message_id = derived_id("task", sub.about["turn"], sub.about["call_id"])
    within = {**sub.about, "plan_approved": plan_approved}
    try:
        return await sub.graph.ainvoke(
            {
                "messages": [HumanMessage(call["args"]["task"], id=message_id)],
                "loop": fresh_loop(message_id) | {"within": within},
            },
            context=sub.context,
        )
    except GraphInterrupt as asked:
        # What middleware and tools ask themselves says nowhere else who it is.
        cards = tuple(carded(one, sub.context) for one in asked.args[0])
        raise GraphInterrupt(cards) from None


def _answer(messages: Sequence[AnyMessage], sub: SubRun) -> Outcome:
    last = messages[-1]
    if not isinstance(last, AIMessage):
        # A middleware ended it before the model said anything.
        return failed(f"{sub.context.agent.label} ended without an answer.")
    text = last.text.strip()
    shape = sub.context.agent.shape
    value: Any = text
    if shape is not None:
        value = (last.additional_kwargs or {}).get("output", text)
    outcome = completed(value)
    outcome.meta["agent"] = sub.context.agent.name
    sources = tuple(_sources(messages))
    return Outcome(outcome.status, outcome.data, sources=sources, meta=outcome.meta)


def _sources(messages: Sequence[AnyMessage]) -> Iterator[dict[str, Any]]:
    """Give the sources of the sub-run's results: they are the run's, too (EXT-08)."""
    for message in messages:
        if isinstance(message, ToolMessage) and isinstance(message.artifact, dict):
            yield from message.artifact.get("sources") or ()
