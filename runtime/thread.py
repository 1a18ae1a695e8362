"""A session's thread in the graph: what it holds, and how an unfinished one is put in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)

from runtime.parts import calls_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import Interrupt, StateSnapshot

    from graphs.agent import Graph


@dataclass(frozen=True, slots=True)
class Closing:
    """Why calls without a result get one."""

    text: str
    """What the model and the user read in its place."""
    status: str = "cancelled"


class Thread:
    """One session's thread, seen through the graph that carries out its runs."""

    def __init__(self, graph: Graph, session_id: str, foreign_run: str | None = None) -> None:
        """Take the thread of a session.

        Args:
            graph: carries out its runs.
            session_id: whose thread it is.
            foreign_run: id of the run in which an extension's own graph does the work: what that
                has in its own state belongs to the conversation.
        """
        self.graph = graph
        self.config: RunnableConfig = {"configurable": {"thread_id": session_id}}
        self._foreign_run = foreign_run

    async def snapshot(self) -> StateSnapshot:
        """Return the state at the last checkpoint."""
        within = self._foreign_run is not None
        return await self.graph.aget_state(self.config, subgraphs=within)

    async def settled(self) -> None:
        """Wait until what steps have written is stored, or cannot be, which ends the drive."""
        saver = cast("Any", self.graph.checkpointer)
        await saver.settled()

    async def within(self, space: str, graph: Graph | None = None) -> StateSnapshot:
        """Return the state of a graph of ours that ran inside a step of this thread.

        Args:
            space: its namespace.
            graph: that graph, where it differs; what graphs within it hold is read as well.
        """
        where = {**self.config.get("configurable", {}), "checkpoint_ns": space}
        reader = graph or self.graph
        return await reader.aget_state({"configurable": where}, subgraphs=graph is not None)

    def conversation(self, snapshot: StateSnapshot) -> list[AnyMessage]:
        """Return the messages of a snapshot that stand, those of a foreign graph included."""
        return [*told_in(snapshot), *self._within(snapshot)]

    async def settle(
        self,
        closing: Closing,
        *,
        message: HumanMessage | None,
        partial: AIMessage | None,
    ) -> list[AnyMessage]:
        """Leave the thread well paired and ready for the next message.

        Results of calls that ended are kept, the others get one that says why there is
        none. Questions that wait are dropped.

        Args:
            closing: the reason given for each call without a result.
            message: the run's message, added where the graph never got it.
            partial: what the model had said when it was stopped.

        Returns:
            The thread's messages, the added ones included.
        """
        from langgraph.constants import END

        from graphs.settle import SETTLE_AS, settling_messages

        snapshot = await self.snapshot()
        within = self._within(snapshot)
        unfinished = bool(snapshot.next)
        if unfinished:
            # Takes over what finished tasks of the broken step have written, drops the rest.
            await self.graph.aupdate_state(self.config, None, as_node=END)
            snapshot = await self.snapshot()
        messages = told_in(snapshot)
        # A turn that middleware had not let stand is taken back with all behind it.
        untold = [RemoveMessage(id=str(one.id)) for one in messages_in(snapshot)[len(messages) :]]
        known = {str(one.id) for one in [*messages, *within]}
        added: list[AnyMessage] = []
        if message is not None and not has_begun(snapshot, str(message.id)):
            added.append(message)
        added += within
        if partial is not None and str(partial.id) in known:
            partial = None
        added += settling_messages(
            [*messages, *added], partial=partial, reason=closing.text, status=closing.status
        )
        if added or unfinished:
            changes = {"messages": [*untold, *added]}
            await self.graph.aupdate_state(self.config, changes, as_node=SETTLE_AS)
        return [*messages, *added]

    async def let_go_on(self, snapshot: StateSnapshot) -> None:
        """Let a thread go on that stands at a step which its graph does not have any more.

        A middleware that was taken away since leaves it there. A turn that it held back is taken
        back with it: the model is asked again.
        """
        if self._foreign_run is not None or snapshot.next or snapshot.interrupts:
            return
        from graphs.settle import GO_ON_AS

        told = told_in(snapshot)
        untold = [RemoveMessage(id=str(one.id)) for one in messages_in(snapshot)[len(told) :]]
        if not untold and isinstance(told[-1], AIMessage) and not calls_of(told[-1]):
            return  # it is at its end
        values = cast("dict[str, Any]", snapshot.values)
        loop = {**cast("dict[str, Any]", values.get("loop") or {}), "untold": ""}
        change = {"messages": untold, "loop": loop}
        await self.graph.aupdate_state(self.config, change, as_node=GO_ON_AS)

    async def forget(self, message_id: str) -> None:
        """Take a message and the results of its calls out of the model's view for good."""
        from graphs.settle import SETTLE_AS

        gone: list[RemoveMessage] = []
        calls: set[str] = set()
        for one in messages_in(await self.snapshot()):
            if one.id == message_id:
                calls = (
                    {call["id"] for call in calls_of(one)} if isinstance(one, AIMessage) else set()
                )
                gone.append(RemoveMessage(id=message_id))
            elif isinstance(one, ToolMessage) and one.tool_call_id in calls:
                gone.append(RemoveMessage(id=str(one.id)))
            elif not isinstance(one, ToolMessage):
                calls = set()
        if gone:
            await self.graph.aupdate_state(self.config, {"messages": gone}, as_node=SETTLE_AS)

    def _within(self, snapshot: StateSnapshot) -> list[AnyMessage]:
        """Return what a foreign graph that is not at its end has added so far."""
        if self._foreign_run is None:
            return []
        from graphs.foreign import added_by

        given = {str(one.id) for one in messages_in(snapshot)}
        return list(added_by(self._foreign_run, states_within(snapshot), given))


def messages_in(snapshot: StateSnapshot) -> list[AnyMessage]:
    """Return the conversation that a snapshot holds."""
    values = cast("dict[str, Any]", snapshot.values or {})
    return list(values.get("messages") or [])


def told_in(snapshot: StateSnapshot) -> list[AnyMessage]:
    """Return the conversation up to a turn that middleware may still change."""
    values = cast("dict[str, Any]", snapshot.values or {})
    untold = cast("dict[str, Any]", values.get("loop") or {}).get("untold")
    messages = messages_in(snapshot)
    if not untold:
        return messages
    return list(itertools.takewhile(lambda one: one.id != untold, messages))


def states_within(snapshot: StateSnapshot) -> Iterator[Any]:
    """Give the messages of the graphs within, and those of tasks that ended beside others."""
    from langgraph.types import StateSnapshot

    from graphs.foreign import messages_written

    for task in snapshot.tasks:
        if not isinstance(task.state, StateSnapshot):
            continue
        yield from messages_in(task.state)
        for ended in task.state.tasks:
            yield from messages_written(ended.result)


def summary_in(snapshot: StateSnapshot) -> dict[str, Any]:
    """Return what stands for messages that summarising removed; empty where none were."""
    values = cast("dict[str, Any]", snapshot.values or {})
    return dict(values.get("summary") or {})


def has_begun(snapshot: StateSnapshot, message_id: str) -> bool:
    """Tell whether the thread has taken the message in, even if a summary took it away again."""
    values = cast("dict[str, Any]", snapshot.values or {})
    began = cast("dict[str, Any]", values.get("loop") or {}).get("began")
    return began == message_id or message_id in {str(one.id) for one in messages_in(snapshot)}


def waiting_in(snapshot: StateSnapshot) -> dict[str, Interrupt]:
    """Return the questions that a snapshot waits for, by id."""
    return {interrupt.id: interrupt for interrupt in snapshot.interrupts}


def open_calls(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the calls of the last turn that have no result, in order."""
    done: set[str] = set()
    for one in reversed(messages):
        if isinstance(one, ToolMessage):
            done.add(one.tool_call_id)
        elif isinstance(one, AIMessage):
            return [call for call in calls_of(one) if call["id"] not in done]
    return []
