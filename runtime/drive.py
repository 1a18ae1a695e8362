"""One drive of the graph for a run: from its input to its end or its next question."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from core import events
from core.context import RunContext
from core.hooks import RunEnd
from core.ids import new_id
from core.records import ArchiveRecord, MessageRecord, RunRecord
from core.types import MessageStatus
from runtime import parts
from runtime.delegation import Delegations
from runtime.foreign import ForeignStream
from runtime.gates import admitted
from runtime.journal import RunWriter
from runtime.ledger import Ledger
from runtime.recall import Recalled
from runtime.rows import Rows
from runtime.sink import RunSink
from runtime.subruns import SubState, sub_states
from runtime.thread import Thread, has_begun, summary_in, waiting_in

if TYPE_CHECKING:
    from langgraph.runtime import RunControl
    from langgraph.types import Interrupt, StateSnapshot


@dataclass(slots=True)
class Drive:
    """Everything that one drive works with."""

    run: RunRecord
    ctx: RunContext
    thread: Thread
    writer: RunWriter
    sink: RunSink
    ledger: Ledger
    recalled: Recalled
    foreign: ForeignStream | None = None
    """What is heard of an extension's own graph, where that does the work."""
    delegations: Delegations | None = None
    """The sub-runs, where the agent may delegate."""
    sources: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Where the results of this run's tools came from, in order, without doubles."""
    answer: MessageRecord | None = None
    """The last turn, as it is stored."""
    _control: RunControl | None = None
    """Tells the graph to stop at its next step; there once it goes."""
    _leaving: bool = False
    _turns: dict[str, AIMessage] = field(default_factory=dict[str, AIMessage])
    """Which message asked for a call."""
    _told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Messages and calls whose result this drive has dealt with."""

    def leave(self) -> None:
        """Let the graph stop at its next step: what it is at now is done, and kept."""
        self._leaving = True
        if self._control is not None:
            self._control.request_drain()

    async def carry_on(self) -> Interrupt | None:
        """Drive the graph until it ends.

        Returns:
            The question the run waits with, or `None` at its end.

        Raises:
            GraphDrained: it was told to leave, and stopped between two steps.
            RunError: the run ends with this error.
        """
        from langgraph.runtime import RunControl

        self._control = RunControl()
        if self._leaving:
            self.leave()
        graph_input = await self._input()
        questions: dict[str, Interrupt] = {}
        stream = cast(
            "AsyncGenerator[Any]",
            self.thread.graph.astream(  # pyright: ignore[reportUnknownMemberType]
                graph_input,
                self.thread.config,
                context=self.ctx,
                stream_mode="updates" if self.foreign is None else ["updates", "messages"],
                subgraphs=self.foreign is not None or self.delegations is not None,
                durability="sync",
                control=self._control,
            ),
        )
        # Whatever ends the loop ends the graph with it.
        async with aclosing(stream):
            if self.foreign is not None:
                with self.foreign.counting():
                    async for item in stream:
                        await self._hear(self.foreign, item, questions)
            elif self.delegations is not None:
                async for space, update in stream:
                    if space:
                        self.delegations.runs.hear(space, update)
                    else:
                        await self._take(update, questions)
            else:
                async for update in stream:
                    await self._take(update, questions)
        if self.foreign is not None and not questions:
            self.foreign.take_back()
        return await self._rested(questions)

    async def _rested(self, questions: Mapping[str, Interrupt]) -> Interrupt | None:
        """Return what is asked now: of several sub-runs that ask, the one that was called first.

        Hooks at `run.after` are told of a run that has ended well.
        """
        if len(questions) > 1:
            waiting = waiting_in(await self.thread.snapshot())
            return next(questions[one] for one in [*waiting, *questions] if one in questions)
        if not questions and self.ctx.hooks.wants("run.after"):
            await self.ctx.hooks.apply(self.run_end())
        return next(iter(questions.values()), None)

    def run_end(self, error_code: str = "") -> RunEnd:
        """Return what hooks are told of the end of this run."""
        parts = self.answer.parts if self.answer else []
        total = self.ledger.total()
        return RunEnd(
            run=self.ctx.hooks.run,
            status="failed" if error_code else "success",
            answer="".join(str(one["text"]) for one in parts if one["type"] == "text"),
            error_code=error_code,
            duration_ms=self.duration_ms(),
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
        )

    # What goes in -----------------------------------------------------------------------

    async def _input(self) -> Any:
        """Return what the graph begins with; `None` goes on from the last checkpoint."""
        if not self.recalled.began:
            return await self._first_input()
        snapshot = await self.thread.snapshot()
        begun = has_begun(snapshot, str(self.run.input["message"]["id"]))
        await self._catch_up(self.thread.conversation(snapshot) if begun else ())
        for state in await self.sub_states(snapshot):
            # Told in the tables only once; a crash may have come before.
            self._tell_within(state)
        self._keep_archive(summary_in(snapshot))
        resume = self.run.input.get("resume")
        if resume is not None:
            from langgraph.types import Command

            waiting = waiting_in(snapshot)
            asked = str(resume["interrupt_id"])
            if asked not in waiting:
                await self.thread.let_go_on(snapshot)
                return None
            from graphs.foreign import as_resumed, carded

            card = carded(waiting[asked], self.ctx).value
            return Command(resume={asked: as_resumed(card, resume["value"])})
        if not begun:
            return await self._first_input()
        await self.thread.let_go_on(snapshot)
        return None

    async def _first_input(self) -> dict[str, Any]:
        """Return the input of a run that begins, once hooks at `run.before` let it.

        Raises:
            HookError: a hook refuses, or failed.
        """
        from graphs.state import begin

        return begin(await admitted(self.message(), self.ctx.hooks))

    def message(self) -> HumanMessage:
        """Return the message that began this run, as the graph gets it."""
        given = cast("dict[str, Any]", self.run.input["message"])
        return HumanMessage(str(given["content"]), id=str(given["id"]))

    async def _catch_up(self, messages: Sequence[AnyMessage]) -> None:
        """Store what a checkpoint holds of this run and the tables may not, after a crash."""
        for message in messages:
            if isinstance(message, AIMessage):
                self._remember(message)
        for message in self._own(messages):
            if isinstance(message, AIMessage):
                await self._turn(message)
            elif isinstance(message, ToolMessage):
                self._result(message)
        for message_id in self.recalled.spoken.keys() - {str(message.id) for message in messages}:
            self.writer.buffer.reset(message_id, "This turn was interrupted and is repeated.")

    def _own(self, messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
        """Return the messages after the one that began this run, of a thread that took it in."""
        first = self.run.input["message"]["id"]
        for index, message in enumerate(messages):
            if message.id == first:
                return messages[index + 1 :]
        # A summary took it away, and with it everything before it: what is left is this run's.
        return messages

    # What comes out ---------------------------------------------------------------------

    async def _take(self, update: dict[str, Any], questions: dict[str, Interrupt]) -> None:
        for node, change in update.items():
            if node == "__interrupt__":
                from graphs.foreign import carded

                for question in cast("tuple[Interrupt, ...]", change):
                    questions[question.id] = carded(question, self.ctx)
            elif isinstance(change, Mapping) and node not in parts.untold_steps(self.ctx.agent):
                await self._change(cast("Mapping[str, Any]", change))

    async def _hear(
        self,
        foreign: ForeignStream,
        item: tuple[tuple[str, ...], str, Any],
        questions: dict[str, Interrupt],
    ) -> None:
        """Take what comes of a foreign graph: namespace (empty for our own), mode, content."""
        space, mode, content = item
        if not space and mode == "updates":
            await self._take(content, questions)
        elif space and mode == "messages":
            foreign.token(content[0])
        elif len(space) == 1:
            await self._change({"messages": foreign.step(content)})

    async def _change(self, change: Mapping[str, Any]) -> None:
        for message in cast("list[AnyMessage]", change.get("messages") or []):
            if isinstance(message, AIMessage):
                await self._turn(message)
            elif isinstance(message, ToolMessage):
                stored = self._result(message)
                if stored is not None and "sub" in parts.artifact_of(message):
                    # The step with the sub-run's state is not left before all of it is told.
                    await stored
        self._keep_archive(cast("dict[str, Any]", change.get("summary") or {}))

    async def _turn(self, message: AIMessage) -> None:
        self._remember(message)
        if self.foreign is not None and not self.foreign.turn(message):
            return
        message_id = str(message.id)
        self.writer.buffer.whole(message_id)
        visible = parts.turn_parts(message, self.ctx.tools)
        if not visible:
            return
        cut = message.response_metadata.get("truncated") and not parts.calls_of(message)
        status = MessageStatus.INCOMPLETE if cut else MessageStatus.COMPLETE
        record = parts.message_record(self.run, message_id, visible, self.ctx.clock.now(), status)
        self.answer = record
        # What is shown as whole must not be asked for, and paid, again after a crash.
        await self.thread.settled()
        stored = self.writer.stage(Rows(messages=[record], usage=self.ledger.take()))
        if parts.calls_of(message):
            # No tool may run before it is certain who asked for it. A last answer does not
            # wait: it is stored together with the end of the run.
            await stored

    def _remember(self, message: AIMessage) -> None:
        for call in parts.calls_of(message):
            self._turns[call["id"]] = message

    def _result(self, message: ToolMessage) -> Awaitable[None] | None:
        turn = self._turns.get(message.tool_call_id)
        asked = str(turn.id) if turn is not None else ""
        if turn is None or (asked, message.tool_call_id) in self._told:
            # A call that an earlier run left open is closed by `prepare`; it is not ours to tell.
            return None
        if self.delegations is not None:
            self.delegations.runs.ended(message)
        self._told.add((asked, message.tool_call_id))
        record = parts.result_record(self.run, asked, message, self.ctx.clock.now())
        for source in cast("list[dict[str, Any]]", record.meta["sources"]):
            if not any(parts.same_source(source, known) for known in self.sources):
                self.sources.append(source)
        if message.tool_call_id in self.recalled.results:
            # Watchers know it from before the interruption. A later turn may use the id again.
            self.recalled.results.discard(message.tool_call_id)
        else:
            self._say_begun(turn, message)
            self.writer.emit(parts.result_event(record, self.run.agent, self.ctx.tools))
        return self.writer.stage(Rows(tool_results=[record], usage=self.ledger.take()))

    def _say_begun(self, turn: AIMessage, result: ToolMessage) -> None:
        """Tell that a call began whose result is here, where a crash came before that was stored."""
        call_id, ran = result.tool_call_id, parts.artifact_of(result).get("status") != "cancelled"
        if not (self.recalled.began and ran):
            return
        if call_id in self.sink.called or call_id in self.recalled.called:
            return
        for call in parts.calls_of(turn):
            if call["id"] == call_id:
                label = parts.label_of(self.ctx.tools, call["name"])
                self.sink.emit(
                    events.ToolCall(
                        tool=call["name"],
                        cn_tool=label,
                        args=call["args"],
                        agent_id=self.ctx.agent.name,
                        tool_call_id=call_id,
                    )
                )

    def _keep_archive(self, summary: Mapping[str, Any]) -> None:
        """Store what summarising removed; one that is stored already stays as it is."""
        archive = summary.get("archive")
        if isinstance(archive, dict):
            self.writer.stage(Rows(archives=[self._archive(cast("dict[str, Any]", archive))]))

    def _archive(self, archive: Mapping[str, Any]) -> ArchiveRecord:
        return ArchiveRecord(
            id=str(archive.get("id") or new_id()),
            session_id=self.run.session_id,
            run_id=self.run.id,
            path=str(archive.get("path") or ""),
            summary=str(archive.get("summary") or ""),
            messages=int(archive.get("messages") or 0),
            tokens_before=int(archive.get("tokens_before") or 0),
            tokens_after=int(archive.get("tokens_after") or 0),
            created_at=self.ctx.clock.now(),
        )

    async def tell(self, messages: Sequence[AnyMessage], partial_id: str) -> None:
        """Store and show what a settled thread holds of this run and nobody was told yet."""
        for message in messages:
            if isinstance(message, AIMessage):
                self._remember(message)
        for message in self._own(messages):
            if isinstance(message, ToolMessage):
                self._result(message)
            elif isinstance(message, AIMessage) and message.id != partial_id:
                await self._turn(message)

    def _tell_within(self, state: SubState) -> None:
        if self.delegations is not None:
            self.delegations.runs.tell(state.sub, state.messages)

    async def sub_states(self, snapshot: StateSnapshot | None = None) -> list[SubState]:
        """Return the sub-runs of the step that the thread stands at."""
        if self.delegations is None:
            return []
        snapshot = snapshot or await self.thread.snapshot()
        return await sub_states(self.thread, snapshot, self.run.id, self.delegations.sub_of)

    # How long it took -------------------------------------------------------------------

    def duration_ms(self) -> int:
        """Return the milliseconds worked on this run, waiting for people not counted."""
        return round(self.ctx.seconds_worked() * 1000)

    def agent_start(self) -> events.AgentStart:
        """Return the event with which the run's agent begins."""
        agent = self.ctx.agent
        return events.AgentStart(agent=agent.name, cn_agent=agent.label, agent_id=agent.name)
