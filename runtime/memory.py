"""The runtime of the product without a database: all that is kept is kept in memory.

Tests of extensions run on it (`extensions.testing`). The engine, the drives, the graphs, the
checks of answers and the services are the product's own; nothing outlives the object.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from core.clock import Clock
from core.errors import Invalid, NoPendingInterrupt, NotFound
from core.events import Event, InterruptResolved, UserMessage, dump
from core.ids import new_id
from core.ports import Begun, CallJournal, FileEntry, FileStore, FileStores, Grants, Models
from core.principal import Principal
from core.records import (
    InterruptRecord,
    MessageRecord,
    RunRecord,
    ToolResultRecord,
    UsageRecord,
)
from core.registry import Assembly
from core.settings import Settings
from core.types import RunKind, RunStatus
from runtime.admission import Said, addressed, checked
from runtime.agents import Agents
from runtime.answers import check_answer
from runtime.commands import ChatCommand
from runtime.engine import Engine
from runtime.gates import code_of
from runtime.journal import RunWriter
from runtime.keeping import Before
from runtime.recall import Recalled
from runtime.rows import Ending
from runtime.services import Services
from runtime.workshop import Parts, Workshop

PROJECT: Final = "test"
"""The one project whose files all sessions share."""


@dataclass(slots=True)
class RunLog:
    """What one run has said and stored."""

    events: list[Event] = field(default_factory=list[Event])
    messages: dict[str, MessageRecord] = field(default_factory=dict[str, MessageRecord])
    results: dict[tuple[str, str], ToolResultRecord] = field(
        default_factory=dict[tuple[str, str], ToolResultRecord]
    )
    usage: list[UsageRecord] = field(default_factory=list[UsageRecord])
    interrupt: InterruptRecord | None = None
    """The question that waits."""
    ending: Ending | None = None
    """How the last drive came to rest."""

    def recalled(self) -> Recalled:
        """Return what a drive has to know that goes on from here."""
        recalled = Recalled()
        for event in self.events:
            recalled.note(dump(event))
        recalled.stored = {one.id for one in self.messages.values() if one.role == "assistant"}
        for message_id in recalled.spoken.keys() & recalled.stored:
            del recalled.spoken[message_id]
        return recalled


class MemoryJournal:
    """Takes what runs say at the next turn of the event loop."""

    def __init__(self) -> None:
        self.logs: dict[str, RunLog] = {}

    def log(self, run_id: str) -> RunLog:
        """Return what a run has said so far."""
        return self.logs.setdefault(run_id, RunLog())

    def open(self, run: RunRecord) -> RunWriter:
        """Return the writer of a run."""
        return RunWriter(self, run)

    def plan(self, writer: RunWriter, *, now: bool) -> float:
        """Note that a writer has something."""
        del now  # everything is due at once
        if writer.due_at is None:
            asyncio.get_running_loop().call_soon(self._store, writer)
        return 0.0

    def _store(self, writer: RunWriter) -> None:
        entry, log = writer.take(), self.log(writer.run.id)
        log.events += entry.events
        writer.last_seq = len(log.events)
        log.messages |= {one.id: one for one in entry.rows.messages}
        log.results |= {(one.message_id, one.tool_call_id): one for one in entry.rows.tool_results}
        log.usage += entry.rows.usage
        log.interrupt = entry.rows.interrupt or log.interrupt
        log.ending = entry.rows.ending or log.ending
        if not entry.done.done():
            entry.done.set_result(None)


class MemoryGrants:
    """Standing permissions; implements `core.ports.Grants`."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    async def granted(self, principal: Principal, session_id: str) -> frozenset[str]:
        """Return the names of tools that were allowed for this session or workspace."""
        workspace = str(principal.workspace_id)
        return frozenset(self._names.get(session_id, set()) | self._names.get(workspace, set()))

    def add(self, where: str, tool: str) -> None:
        """Allow a tool in a session or a workspace, by its id."""
        self._names.setdefault(where, set()).add(tool)


class NoCalls:
    """Notes nothing: no process dies here; implements `core.ports.CallJournal`."""

    async def begin(self, key: str, tool: str, *, agreed: int) -> Begun:
        """Let every call begin."""
        del key, tool, agreed
        return Begun()

    async def end(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Do nothing."""

    async def withdraw(self, key: str) -> None:
        """Do nothing."""


class MemoryKeeping:
    """Keeps threads, preferences and permissions; implements `runtime.keeping.Keeping`."""

    def __init__(self, journal: MemoryJournal, preferences: str) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        class Saver(InMemorySaver):
            """What is written is there at once."""

            async def settled(self) -> None:
                """Return."""

        self._journal = journal
        self._preferences = {"text": preferences}
        self._saver = Saver()
        self.book = MemoryGrants()
        self.grants: Grants = self.book

    async def before(self, run: RunRecord) -> Before:
        """Return what is known of a run."""
        return Before(PROJECT, self._preferences, self._journal.log(run.id).recalled())

    def calls(self, run: RunRecord, clock: Clock) -> CallJournal:
        """Return a journal that notes nothing."""
        del run, clock
        return NoCalls()

    def checkpointer(self, claim: RunRecord | None = None) -> Any:
        """Return the one checkpointer."""
        del claim  # nobody else is there
        return self._saver


class MemoryRuntime:
    """Carries out one run after another; `async with` starts and closes the services."""

    def __init__(
        self,
        settings: Settings,
        models: Models,
        assembly: Assembly,
        stores: FileStores,
        clock: Clock,
        preferences: str = "",
    ) -> None:
        """Put the parts together; nothing runs yet."""
        # Equipping changes it, and another runtime may be made of the same.
        assembly = dataclasses.replace(assembly)
        self._assembly, self._clock = assembly, clock
        self._parts = Parts.of(settings, models, assembly, stores, clock)
        self.journal = MemoryJournal()
        self._keeping = MemoryKeeping(self.journal, preferences)
        self.engine = Engine(Workshop(self._keeping, self._parts), self.journal, clock)
        self.services = Services(assembly.services)
        self.agents = Agents(assembly, self.services)

    async def __aenter__(self) -> Self:
        """Start the services, then make the middleware that may need them.

        Raises:
            ConfigError: one cannot start or be made; services that run are closed again.
        """
        await self.services.__aenter__()
        try:
            self.agents.equip()
        except BaseException:
            await self.services.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the services."""
        await self.services.__aexit__(kind, error, traceback)

    def files(self, principal: Principal, session_id: str) -> FileStore:
        """Return the files that tools of a session see."""
        return self._parts.stores.open(principal, PROJECT, session_id)

    async def begin(self, principal: Principal, command: ChatCommand) -> RunRecord:
        """Carry out a message up to its end or its first question.

        Raises:
            NotFound: there is no such agent or skill.
            Invalid: the message, its mode or its model is not allowed.
        """
        prefixes = checked(command)
        if prefixes.session_id is not None:
            raise Invalid("#session: needs the database; there is one session at a time here.")
        agent = command.agent or self._assembly.default_agent
        if agent not in self._assembly.agents:
            known = ", ".join(sorted(self._assembly.agents))
            raise NotFound(f"There is no agent {agent!r}. There are: {known}.")
        addressed(self._assembly, agent)
        shelf = await self._parts.skills.shelf(principal)
        skill = await shelf.load(prefixes.skill) if prefixes.skill else None
        session_id = command.session_id or new_id()
        files = self.files(principal, session_id)
        stored: list[FileEntry] = [
            await files.store_upload(upload.name, upload.content) for upload in command.files
        ]
        said = Said(prefixes.text, "", stored, skill)
        model = self._parts.models.get(command.model).name
        run = self._new_run(principal, command, session_id, (agent, model))
        message_id = new_id()
        run.input["message"] = {"id": message_id, "content": said.for_model()}
        run.input["began_with"] = code_of(self._assembly, agent)
        self.journal.log(run.id).events.append(
            UserMessage(message_id=message_id, content=said.text, via="chat")
        )
        return await self._driven(run)

    async def answer(self, principal: Principal, run: RunRecord, raw: Any) -> RunRecord:
        """Answer the question a run waits with and carry it on.

        Args:
            principal: who answers.
            run: as `begin` or `answer` returned it.
            raw: what a client sends beside session and token.

        Raises:
            NoPendingInterrupt: it waits for nothing.
            Invalid: the answer does not fit the card; the question stays.
        """
        log = self.journal.log(run.id)
        question = log.interrupt
        if question is None or run.status is not RunStatus.WAITING_INPUT:
            raise NoPendingInterrupt
        answer = check_answer(question.kind, question.card, raw, self._assembly.tools)
        for scope, tool in answer.grants:
            where = run.session_id if scope == "session" else str(principal.workspace_id)
            self._keeping.book.add(where, tool)
        log.interrupt = None
        log.events.append(
            InterruptResolved(
                interrupt_token=question.token,
                decisions=answer.decisions,
                by=principal.user_name,
            )
        )
        resume = {"interrupt_id": question.graph_interrupt_id, "value": answer.value}
        return await self._driven(
            dataclasses.replace(run, input=run.input | {"resume": resume}, attempt=run.attempt + 1)
        )

    # Helpers ----------------------------------------------------------------------------

    async def _driven(self, run: RunRecord) -> RunRecord:
        """Return the run as its row would say after the drive."""
        log = self.journal.log(run.id)
        log.ending = None
        run = dataclasses.replace(run, status=RunStatus.RUNNING, last_seq=len(log.events))
        await self.engine.drive(run)
        if log.ending is None:  # nobody else takes over what is left here
            return dataclasses.replace(run, status=RunStatus.INTERRUPTED)
        return dataclasses.replace(run, status=log.ending.status, **log.ending.fields)

    def _new_run(
        self,
        principal: Principal,
        command: ChatCommand,
        session_id: str,
        names: tuple[str, str],
    ) -> RunRecord:
        agent, model = names
        now = self._clock.now()
        return RunRecord(
            id=new_id(),
            workspace_id=principal.workspace_id,
            user_id=principal.user_id,
            session_id=session_id,
            kind=RunKind.CHAT,
            status=RunStatus.QUEUED,
            agent=agent,
            model=model,
            mode=command.mode or "full",
            trace_id=new_id(),
            attempt=1,
            owner_id="memory",
            last_seq=0,
            input={},
            on_disconnect="continue",
            cancel_requested=False,
            error_code=None,
            error_message=None,
            usage={},
            context_tokens=0,
            created_at=now,
            started_at=now,
            finished_at=None,
            user_name=principal.user_name,
        )
