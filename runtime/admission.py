"""Lets a message in: checked and made a run in one transaction, or refused without a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import FileMissing, Invalid, NotFound, SessionBusy
from core.events import StoredEvent, UserMessage
from core.faults import fault
from core.ids import is_uuid, new_id
from core.ports import FileEntry, FileStore
from core.principal import Principal
from core.records import MessageRecord, RunRecord, SessionRecord
from core.registry import Assembly
from core.skills import SkillText
from core.types import SCRIPT, MessageStatus
from runtime.announce import announce_events
from runtime.commands import ChatCommand, Submitted
from runtime.gates import code_of
from runtime.placing import Place
from runtime.prefixes import Prefixes, split_prefixes
from runtime.quoting import quote_session
from runtime.workshop import Parts
from storage.database import Database
from storage.work import UnitOfWork
from tools.skills.index import turn_text

MESSAGE_LIMIT = 400_000
"""Characters of one message."""

FILES_LIMIT = 20
"""Files with one message."""

TITLE_LENGTH = 60
"""Characters of a title that is cut from the first message."""

REQUEST_ID_LENGTH = 128


class Admission:
    """The door through which every message becomes a run, whoever sent it."""

    def __init__(self, database: Database, place: Place, parts: Parts) -> None:
        self._database = database
        self._place = place
        self._parts = parts

    async def admit(
        self, principal: Principal, command: ChatCommand
    ) -> tuple[Submitted, list[StoredEvent]]:
        """Queue a run for a message.

        Returns:
            The run, and its first event, which is committed already.

        Raises:
            NotFound: no such session, or agent, or skill, or quoted session, of this caller.
            SessionBusy: a run is active in the session.
            DuplicateRequest: the `request_id` was used before.
            QueueFull: too many runs wait.
            Invalid: a field has a value that is not allowed, or the skill asked for is broken.
            PathRefused, FileRefused, TooLarge: a file is not accepted.
        """
        prefixes = self._check(command)
        skill = await self._skill(principal, prefixes.skill)
        stored: list[FileEntry] = []
        files: FileStore | None = None
        try:
            async with self._database.work() as work:
                session = await self._session(work, principal, command, prefixes.text)
                place = _Place(principal, session, command, new_id())
                await self._check_place(work, place)
                quoted = await quote_session(work, principal, prefixes.session_id)
                # Last before the rows: whatever can be refused has been by now.
                files = self._parts.stores.open(principal, session.project_id, session.id)
                for upload in command.files:
                    entry = await files.store_upload(upload.name, upload.content)
                    stored.append(entry)
                said = Said(prefixes.text, quoted, stored, skill)
                begun = await self._begin(work, place, said)
        except BaseException:
            if files is not None and stored:
                await _remove(files, stored, everything=command.session_id is None)
            raise
        fault("input.saved")
        return begun

    # Checks that need no database -------------------------------------------------------

    def _check(self, command: ChatCommand) -> Prefixes:
        prefixes = checked(command)
        if command.model is not None:
            self._parts.models.get(command.model)
        return prefixes

    async def _skill(self, principal: Principal, name: str | None) -> SkillText | None:
        """Return the skill that a message asks for; before the transaction, which must be short."""
        if name is None:
            return None
        shelf = await self._parts.skills.shelf(principal)
        return await shelf.load(name)

    # The transaction --------------------------------------------------------------------

    async def _session(
        self, work: UnitOfWork, principal: Principal, command: ChatCommand, text: str
    ) -> SessionRecord:
        """Return the session, locked, as this message finds or makes it."""
        if command.session_id is not None:
            if not is_uuid(command.session_id):
                raise NotFound
            session = await work.sessions.lock(principal, command.session_id.lower())
            self._agent(command.agent or session.agent)
            await self._adapt(work, session, command)
            return session
        agent = self._agent(command.agent or self._parts.assembly.default_agent)
        project_id = await work.projects.ensure(principal, None)
        return await work.sessions.create(
            id=new_id(),
            principal=principal,
            project_id=project_id,
            agent=agent,
            title=cut_title(text),
            mode=command.mode or "full",
            model=command.model,
            thinking=command.thinking,
            at=self._parts.clock.now(),
        )

    async def _adapt(self, work: UnitOfWork, session: SessionRecord, command: ChatCommand) -> None:
        """Let a session remember what this message asks for, and that it was used."""
        wanted = {
            "agent": command.agent,
            "mode": command.mode,
            "model": command.model,
            "thinking": command.thinking,
        }
        changed = {key: value for key, value in wanted.items() if value is not None}
        await work.sessions.update(session.id, **changed, updated_at=self._parts.clock.now())

    def _agent(self, name: str) -> str:
        return addressed(self._parts.assembly, name)

    async def _check_place(self, work: UnitOfWork, place: _Place) -> None:
        """Refuse what must not run now; the session is locked, so the answer holds."""
        session, command = place.session, place.command
        if command.request_id is not None:
            key = (place.principal, command.request_id, session.id, place.run_id)
            if command.instead_of is None:
                await work.request_keys.use(*key)
            else:
                await work.request_keys.reuse(*key, command.instead_of)
        active = await work.runs.active(session.id)
        if active is not None:
            details = {"session_id": session.id, "run_id": active.id, "status": active.status}
            raise SessionBusy(details=details)
        await self._place.check(work, place.principal)

    async def _begin(
        self, work: UnitOfWork, place: _Place, said: Said
    ) -> tuple[Submitted, list[StoredEvent]]:
        """Store run, message, first event and ticket."""
        session, command = place.session, place.command
        message_id = new_id()
        now = self._parts.clock.now()
        spot = self._place.spot(None)
        run = await work.runs.create(
            id=place.run_id,
            principal=place.principal,
            session_id=session.id,
            kind=command.kind,
            agent=command.agent or session.agent,
            model=self._parts.models.get(command.model or session.model).name,
            mode=command.mode or session.mode,
            trace_id=command.trace_id or new_id(),
            input={
                "message": {"id": message_id, "content": said.for_model()},
                "began_with": code_of(self._parts.assembly, command.agent or session.agent),
            }
            | further(command),
            on_disconnect=command.on_disconnect,
            at=now,
            status=spot.status,
            owner_id=spot.owner_id,
            attempt=spot.attempt,
        )
        await work.messages.add(place.principal, said.visible(run, message_id))
        event = UserMessage(message_id=message_id, content=said.text, via="chat")
        events = await work.events.append(run, [event], now, run.owner_id, run.attempt)
        await announce_events(work.connection, [(run.id, events[-1].seq)])
        await self._place.announce(work)
        submitted = Submitted(run.id, session.id, run.trace_id, on_disconnect=command.on_disconnect)
        return submitted, events


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message goes: who sends it, into which session, as which run."""

    principal: Principal
    session: SessionRecord
    command: ChatCommand
    run_id: str


@dataclass(frozen=True, slots=True)
class Said:
    """A message with all that came with it."""

    text: str
    quoted: str
    files: Sequence[FileEntry]
    skill: SkillText | None = None

    def for_model(self) -> str:
        """Return the message as the model reads it: skill, text, files, then what was quoted."""
        parts = [turn_text(self.skill), self.text] if self.skill else [self.text]
        if self.files:
            lines = [f"- {entry.path} ({entry.size} bytes)" for entry in self.files]
            parts.append("\n".join(["[Files that came with this message]", *lines]))
        if self.quoted:
            parts.append(self.quoted)
        return "\n\n".join(parts)

    def visible(self, run: RunRecord, message_id: str) -> MessageRecord:
        """Return the message as people see it."""
        parts: list[dict[str, Any]] = []
        if self.skill is not None:
            parts.append({"type": "skill", "name": self.skill.skill.name})
        parts.append({"type": "text", "text": self.text})
        parts += [
            {
                "type": "file",
                "path": entry.path,
                "name": entry.path.rsplit("/", 1)[-1],
                "size": entry.size,
            }
            for entry in self.files
        ]
        return MessageRecord(
            id=message_id,
            session_id=run.session_id,
            run_id=run.id,
            position=0,
            role="user",
            parts=parts,
            status=MessageStatus.COMPLETE,
            created_at=run.created_at,
        )


def further(command: ChatCommand) -> dict[str, Any]:
    """Return what a run's input says beside its message; nothing for most."""
    said: dict[str, Any] = {}
    if command.limits:
        said["limits"] = dict(command.limits)
    if command.script is not None:
        said[SCRIPT] = dict(command.script)
    return said


def checked(command: ChatCommand) -> Prefixes:
    """Return what a message says, taken apart.

    Raises:
        NotFound: it names two sessions.
        Invalid: a field has a value that is not allowed.
    """
    if command.multitask != "reject":
        raise Invalid(
            f"multitask={command.multitask} is not available yet; reject is.",
            details={"available": ["reject"]},
        )
    if command.thread_id is not None and command.thread_id != command.session_id:
        raise NotFound("thread_id must equal session_id.")
    if command.request_id is not None and not 0 < len(command.request_id) <= REQUEST_ID_LENGTH:
        raise Invalid(f"request_id has 1 to {REQUEST_ID_LENGTH} characters.")
    if len(command.files) > FILES_LIMIT:
        raise Invalid(f"At most {FILES_LIMIT} files go with one message.")
    if len(command.message) > MESSAGE_LIMIT:
        raise Invalid(f"A message has at most {MESSAGE_LIMIT} characters.")
    prefixes = split_prefixes(command.message)
    if not prefixes.text.strip():
        raise Invalid("The message is empty.")
    return prefixes


def addressed(assembly: Assembly, name: str) -> str:
    """Return the name of an agent that takes messages.

    Raises:
        NotFound: there is none of that name.
        Invalid: it takes tasks of other agents only.
    """
    agent = assembly.agents.get(name)
    if agent is None:
        there = sorted(one.name for one in assembly.agents.values() if not one.delegate_only)
        raise NotFound(
            f"There is no agent named {name[:80]}. There are: {', '.join(there)}. Those of "
            "extensions are loaded when the server starts."
        )
    if agent.delegate_only:
        raise Invalid(
            f"{agent.label} takes tasks of other agents only, and no messages.",
            details={"cure": "Talk to an agent that may delegate to it."},
        )
    return name


def cut_title(text: str) -> str:
    """Return the title of a session that begins with this text."""
    line = " ".join(text.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


# Helpers ----------------------------------------------------------------------------------


async def _remove(files: FileStore, stored: Sequence[FileEntry], *, everything: bool) -> None:
    """Take away the files of a refused message; those of a session that never was, all."""
    if everything:
        await files.delete_all()
        return
    for entry in stored:
        with contextlib.suppress(FileMissing):
            await files.remove(entry.path)
