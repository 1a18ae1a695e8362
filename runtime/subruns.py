"""Tells and stores what sub-runs do: their calls, results and ends, inside the run's own stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from core import events
from core.context import Drive
from core.errors import GraphwrightError
from core.ids import derived_id
from core.tooling import AgentSpec, ToolSpec
from runtime import parts
from runtime.rows import Rows
from runtime.thread import states_within, told_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from langgraph.types import StateSnapshot

    from core.clock import Clock
    from core.records import RunRecord
    from runtime.journal import RunWriter
    from runtime.ledger import Ledger
    from runtime.recall import Recalled
    from runtime.thread import Closing, Thread

TOOL_NODE = "run_tool"
"""The step whose tasks carry out calls, and in whose namespaces sub-runs keep their state."""

_WITHIN_GRAPH = 2
"""Parts of the namespace of a foreign graph's own steps: the call's task, and the graph's."""


@dataclass(slots=True)
class Sub:
    """One sub-run, as far as telling of it goes."""

    agent: AgentSpec
    tools: Mapping[str, ToolSpec]
    about: Mapping[str, Any]
    """`agent`, `agent_id`, `call_id`, `turn`."""
    drive: Drive
    calls: dict[str, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Any]]]
    )
    """Each call's id as it is told and its arguments, by the id that the agent knows."""


@dataclass(frozen=True, slots=True)
class SubState:
    """What a sub-run's last checkpoint holds."""

    sub: Sub
    snapshot: StateSnapshot
    messages: list[AnyMessage]


class SubRuns:
    """The sub-runs of one drive, by the graph's task that carries each out."""

    def __init__(
        self,
        run: RunRecord,
        writer: RunWriter,
        ledger: Ledger,
        recalled: Recalled,
        clock: Clock,
    ) -> None:
        self._run = run
        self._writer = writer
        self._ledger = ledger
        self._recalled = recalled
        self._clock = clock
        self._subs: dict[str, Sub] = {}
        self._by_id: dict[str, Sub] = {}
        self._told: set[str] = set()
        """Calls whose result this drive has told."""

    def opened(self, task: str, sub: Sub) -> None:
        """Learn which sub-run a task carries out."""
        known = self._known(sub)
        known.drive = sub.drive
        self._subs[task] = known

    def hear(self, space: Sequence[str], update: Mapping[str, Any]) -> None:
        """Take what a step of a sub-run wrote.

        Args:
            space: the namespace: the task of the call, then those of graphs within.
            update: what each of its nodes wrote.
        """
        sub = self._subs.get(space[0].partition(":")[2])
        if sub is None or "__interrupt__" in update:
            return
        if len(space) == 1:
            untold = parts.untold_steps(sub.agent)
            for node, change in update.items():
                if isinstance(change, Mapping) and node not in untold:
                    written = cast("Mapping[str, Any]", change)
                    self.tell(sub, written.get("messages") or ())
        elif len(space) == _WITHIN_GRAPH and sub.agent.graph is not None:
            self.tell(sub, self._of_graph(sub, update.values()))

    def tell(self, sub: Sub, messages: Iterable[AnyMessage]) -> None:
        """Tell and store what these messages of a sub-run say that was not told before."""
        sub = self._known(sub)
        for message in messages:
            if isinstance(message, AIMessage):
                self._turn(sub, message)
            elif isinstance(message, ToolMessage):
                self._result(sub, message)
        self._writer.stage(Rows(usage=self._ledger.take()))

    def ended(self, result: ToolMessage) -> None:
        """Tell that the agent has ended whose sub-run gave this result, if one did."""
        about = cast("dict[str, Any]", parts.artifact_of(result).get("sub") or {})
        if not about or about["agent_id"] in self._recalled.ended:
            return
        self._recalled.ended.add(about["agent_id"])
        who: dict[str, Any] = {name: about[name] for name in ("agent", "cn_agent", "agent_id")}
        who["duration_ms"] = about["duration_ms"]
        if "error" in about:
            self._writer.emit(events.AgentError(**who, message=about["error"]))
        else:
            tokens = int(about["context_tokens"])
            self._writer.emit(events.AgentDone(**who, progress="1/1", context_tokens=tokens))

    def close(
        self, states: Sequence[SubState], closing: Closing, error: GraphwrightError | None
    ) -> None:
        """Tell the end of sub-runs that were cut: of their calls, and where the run failed theirs."""
        from graphs.settle import settling_messages

        for state in states:
            agent_id = str(state.sub.about["agent_id"])
            if agent_id in self._recalled.ended:
                continue
            self.tell(state.sub, state.messages)
            self.tell(
                state.sub,
                settling_messages(state.messages, reason=closing.text, status=closing.status),
            )
            if error is not None:
                agent = state.sub.agent
                self._writer.emit(
                    events.AgentError(
                        agent=agent.name,
                        cn_agent=agent.label,
                        agent_id=agent_id,
                        message=error.message,
                        duration_ms=0,
                    )
                )

    # Helpers ----------------------------------------------------------------------------

    def _known(self, sub: Sub) -> Sub:
        """Return the sub-run as it is known already: its calls may have been told before."""
        return self._by_id.setdefault(str(sub.about["agent_id"]), sub)

    def _of_graph(self, sub: Sub, changes: Iterable[Any]) -> list[AnyMessage]:
        from graphs.foreign import added_by, messages_written

        written = [one for change in changes for one in messages_written(change)]
        return list(added_by(self._run.id, written, sub.drive.given))

    def _turn(self, sub: Sub, turn: AIMessage) -> None:
        calls = parts.calls_of(turn)
        foreign = sub.agent.graph is not None
        for call in calls:
            own = call["id"]
            if foreign:
                # A graph's own ids may be anything, the same in several sub-runs above all.
                own = derived_id(str(sub.about["agent_id"]), str(turn.id), call["id"])
            sub.calls[call["id"]] = (own, call["args"])
        if foreign:
            new = [
                call | {"id": sub.calls[call["id"]][0]}
                for call in calls
                if sub.calls[call["id"]][0] not in self._recalled.called
            ]
            self._recalled.called |= {call["id"] for call in new}
            agent_id = str(sub.about["agent_id"])
            for event in parts.call_events(new, sub.agent.label, agent_id):
                self._writer.emit(event.model_copy(update={"agent_id": agent_id}))

    def _result(self, sub: Sub, message: ToolMessage) -> None:
        own, args = sub.calls.get(message.tool_call_id, ("", {}))
        if not own or own in self._told:
            return
        self._told.add(own)
        about = sub.about
        record = parts.result_record(self._run, str(about["turn"]), message, self._clock.now())
        meta = {
            "within": about["call_id"],
            "agent_id": about["agent_id"],
            "cn_tool": parts.label_of(sub.tools, record.tool),
            "args": args,
        }
        record = dataclasses.replace(record, tool_call_id=own, meta=record.meta | meta)
        if own not in self._recalled.results:
            event = parts.result_event(record, str(about["agent_id"]), sub.tools)
            self._writer.emit(event)
        self._writer.stage(Rows(tool_results=[record]))


async def sub_states(
    thread: Thread,
    snapshot: StateSnapshot,
    run_id: str,
    sub_of: Callable[[Mapping[str, Any]], Sub | None],
) -> list[SubState]:
    """Return the sub-runs of the step that a thread stands at, those that ended in it too.

    Args:
        thread: of the run.
        snapshot: its state.
        run_id: the run.
        sub_of: makes the sub-run from what is stored about it; None where its agent is gone.
    """
    states: list[SubState] = []
    for task in snapshot.tasks:
        if task.name != TOOL_NODE:
            continue
        space = f"{TOOL_NODE}:{task.id}"
        within = await thread.within(space)
        values = cast("dict[str, Any]", within.values or {})
        about = cast("dict[str, Any]", values.get("loop") or {}).get("within")
        sub = sub_of(about) if about else None
        if sub is None:
            continue
        messages = told_in(within)
        if sub.agent.graph is not None:
            messages += await _of_graph(thread, sub, space, run_id)
        states.append(SubState(sub, within, messages))
    return states


async def _of_graph(thread: Thread, sub: Sub, space: str, run_id: str) -> list[AnyMessage]:
    """Return what a foreign graph that is not at its end has added so far."""
    from graphs.agent import agent_graph
    from graphs.foreign import added_by

    saver = cast("Any", thread.graph.checkpointer)
    snapshot = await thread.within(space, agent_graph(sub.agent, saver))
    return list(added_by(run_id, states_within(snapshot), ()))
