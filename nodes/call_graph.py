"""Hands the conversation to a graph of an extension and takes what it added."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp, GraphInterrupt, GraphRecursionError, ParentCommand
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import (
    GraphFailed,
    GraphGaveNothing,
    GraphwrightError,
    Invalid,
    StepLimit,
    TimeBudget,
)
from core.events import Thinking
from core.ids import derived_id
from core.log import get_logger
from core.masking import mask_known, mask_told
from core.tooling import InputShape
from nodes.foreign_cards import as_question
from nodes.foreign_usage import ModelCalls
from nodes.results import closing_results
from nodes.state import State, loop_of, messages_of, summary_of
from nodes.view import Views
from tools.delegating import read_task
from tools.result import completed

CALL_GRAPH = "call_graph"

GraphNode = Callable[[State, Runtime[RunContext]], Awaitable[dict[str, Any]]]

_log = get_logger(__name__)


def graph_caller(inner: Any) -> GraphNode:
    """Return the node that runs `inner`, a compiled graph whose state has `messages`."""

    async def call_graph(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Run the graph to its end.

        Raises:
            Invalid: the session is in plan mode, which a foreign graph does not know.
            StepLimit: it took more steps than a run may.
            TimeBudget: it took longer than a run may.
            GraphFailed: its own code failed.
            GraphGaveNothing: it ended without an answer.
        """
        ctx = runtime.context
        if ctx.mode == "plan" and not loop_of(state)["plan_approved"]:
            message = f"{ctx.agent.label} is a graph of its own and knows no plan mode."
            raise Invalid(message, details={"cure": "Set the session's mode to act."})
        ctx.emit(Thinking(message="Thinking", cn_agent=ctx.agent.label))
        if ctx.agent.shape is not None and ctx.agent_id:
            return {"messages": [await _shaped(inner, state, ctx.agent.shape, ctx)]}
        given = _given(state)
        ctx.drive.given = frozenset(str(message.id) for message in given if message.id)
        result = await _outcome(inner, {"messages": given}, ctx)
        added = added_by(ctx.run_id, result["messages"], ctx.drive.given)
        if not added or _says_nothing(added[-1]):
            raise GraphGaveNothing(f"{ctx.agent.label} ended without an answer.")
        added += closing_results(added)
        return {"messages": added, "loop": loop_of(state), "decisions": {}}

    return call_graph


def added_by(
    run_id: str, messages: Iterable[Any], given: Collection[str]
) -> list[AIMessage | ToolMessage]:
    """Return the turns and results that a foreign graph added, as messages of this run.

    They get ids of the run: those of a foreign graph may be anything, and the same in every run.

    Args:
        run_id: the run.
        messages: what a step wrote or the state holds; other things among them are left out.
        given: ids of the messages that the graph was handed.
    """
    return [
        _in_run(run_id, message)
        for message in messages
        if isinstance(message, AIMessage | ToolMessage) and message.id not in given
    ]


def messages_written(change: Any) -> list[Any]:
    """Return what a step of a graph wrote to `messages`, in whatever form.

    Args:
        change: what LangGraph gives for a task: a mapping, a list of them where it wrote
            several times, or something without messages.
    """
    written: list[Any] = []
    for one in change if isinstance(change, list) else [change]:
        messages = one.get("messages") if isinstance(one, Mapping) else None
        written += messages if isinstance(messages, list) else [messages]
    return written


# Helpers --------------------------------------------------------------------------------


async def _shaped(inner: Any, state: State, shape: InputShape, ctx: RunContext) -> AIMessage:
    """Give the graph what the task's JSON says, and return what it gives as a message."""
    task = messages_of(state)[-1]
    checked = shape.check(read_task(ctx.agent.name, task.text))
    output = completed(await _outcome(inner, checked, ctx))
    return AIMessage(
        output.full,
        id=derived_id(ctx.run_id, str(task.id), "output"),
        additional_kwargs={"output": output.data},
    )


async def _outcome(inner: Any, given: dict[str, Any], ctx: RunContext) -> dict[str, Any]:
    """Run the graph; whatever its own code raises becomes an error of the run."""
    limits = ctx.limits
    clock = asyncio.timeout(limits.seconds - ctx.seconds_worked() if limits.seconds else None)
    try:
        async with clock:
            return await inner.ainvoke(given, _config(ctx))
    except GraphRecursionError as error:
        raise StepLimit(details={"steps": limits.steps}) from error
    except ParentCommand as error:
        raise GraphFailed("The agent's own graph tried to leave into a graph around it.") from error
    except GraphInterrupt as asked:
        raise GraphInterrupt(tuple(as_question(one, ctx) for one in asked.args[0])) from None
    except (GraphBubbleUp, GraphwrightError):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody stopped the run: something within the graph was cancelled by the graph itself.
        raise _failed(error) from error
    except Exception as error:  # boundary: an extension's code
        if clock.expired():
            raise TimeBudget(details={"seconds": limits.seconds}) from error
        raise _failed(error) from error


def _config(ctx: RunContext) -> dict[str, Any]:
    """Return the graph's limits, and who counts the model calls of a sub-run.

    The run's own context is ours: a graph with a context of its own would take it for that.
    """
    own = {
        key: value.override(context=None)
        for key, value in get_config().get("configurable", {}).items()
        if isinstance(value, Runtime)
    }
    config = {"recursion_limit": ctx.limits.steps or 1, "configurable": own}
    if ctx.agent_id:
        config["callbacks"] = [ModelCalls(ctx)]
    return config


def _failed(error: BaseException) -> GraphFailed:
    _log.error("an extension's graph failed", exc_info=error)
    return GraphFailed()


def _says_nothing(last: AIMessage | ToolMessage) -> bool:
    """Tell whether a graph's last message is a turn without text and calls."""
    return isinstance(last, AIMessage) and not (
        last.text.strip() or last.tool_calls or last.invalid_tool_calls
    )


def _in_run(run_id: str, message: Any) -> Any:
    own: dict[str, Any] = {"id": derived_id(run_id, str(message.id))}
    if isinstance(message, ToolMessage):
        failed = message.status == "error"
        # LangGraph's tool nodes write the text of exceptions here, with all that is in it.
        text = mask_told(message.text) if failed else mask_known(message.text)
        if text != message.text:
            own["content"] = text
        # What the graph's own tools put there may have any shape.
        own["artifact"] = {
            "tool": message.name or "",
            "status": "failed" if failed else "completed",
            "full": text,
            "error": text if failed else None,
            "sources": [],
        }
    return message.model_copy(update=own)


def _given(state: State) -> list[Any]:
    """Return the conversation as the model would see it, without our own system prompt."""
    view = Views().build(messages_of(state), "", summary_of(state))
    return [one for one in view if not isinstance(one, SystemMessage) or one.text.strip()]
