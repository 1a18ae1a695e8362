"""Conversations as their owners see and change them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from core.clock import Clock
from core.errors import NotFound, SessionBusy
from core.ids import is_uuid
from core.ports import FileStores
from core.principal import Principal
from core.records import RunRecord, SessionRecord, ToolResultRecord
from core.types import Mode
from runtime import context_use, history
from runtime.workshop import Workshop
from storage.database import Database
from storage.work import UnitOfWork

RUNS_SHOWN = 50


class Sessions:
    """What routes may do with sessions and their messages."""

    def __init__(
        self, database: Database, workshop: Workshop, stores: FileStores, clock: Clock
    ) -> None:
        self._database = database
        self._workshop = workshop
        self._stores = stores
        self._clock = clock

    # Sessions ---------------------------------------------------------------------------

    async def list(
        self,
        principal: Principal,
        *,
        cursor: str | None = None,
        limit: int = 50,
        project: str | None = None,
        agent: str | None = None,
        text: str | None = None,
    ) -> tuple[list[SessionRecord], str | None]:
        """Return a page of sessions, pinned ones first, then the newest.

        Raises:
            BadRequest: the cursor is not of this list.
        """
        async with self._database.work() as work:
            return await work.sessions.list(
                principal, cursor=cursor, limit=limit, project=project, agent=agent, text=text
            )

    async def search(
        self, principal: Principal, q: str, *, cursor: str | None = None, limit: int = 50
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return sessions whose title or messages contain the text, with the place found.

        Raises:
            BadRequest: the cursor is not of this search.
        """
        async with self._database.work() as work:
            found, following = await work.sessions.search(principal, q, cursor, limit)
        return [asdict(session) | {"snippet": snippet} for session, snippet in found], following

    async def get(self, principal: Principal, session_id: str) -> SessionRecord:
        """Return a session.

        Raises:
            NotFound: no such session of this caller.
        """
        async with self._database.work() as work:
            return await work.sessions.get(principal, _known(session_id))

    async def delete(self, principal: Principal, session_id: str) -> None:
        """Remove a session with everything that is only its own: rows, checkpoints, files.

        Raises:
            NotFound: no such session of this caller.
            SessionBusy: a run is active in it; cancel it first.
        """
        async with self._database.work() as work:
            session = await self._free(work, principal, session_id)
            project_id = await work.sessions.delete(principal, session.id)
            if project_id is not None:
                # Before the commit: what cannot be removed must not be forgotten either.
                await self._stores.open(principal, project_id, session.id).delete_all()

    async def pin(self, principal: Principal, session_id: str, pinned: bool) -> SessionRecord:
        """Put a session at the top of the list, or take it down.

        Raises:
            NotFound: no such session of this caller.
        """
        at = self._clock.now() if pinned else None
        return await self._change(principal, session_id, pinned_at=at)

    async def set_title(self, principal: Principal, session_id: str, title: str) -> SessionRecord:
        """Name a session; from now on no title is made for it.

        Raises:
            NotFound: no such session of this caller.
        """
        return await self._change(principal, session_id, title=title, title_source="user")

    async def set_mode(self, principal: Principal, session_id: str, mode: Mode) -> SessionRecord:
        """Set how the session's next runs work.

        Raises:
            NotFound: no such session of this caller.
        """
        return await self._change(principal, session_id, mode=mode)

    async def runs(self, principal: Principal, session_id: str) -> list[RunRecord]:
        """Return the last runs of a session, newest first.

        Raises:
            NotFound: no such session of this caller.
        """
        async with self._database.work() as work:
            session = await work.sessions.get(principal, _known(session_id))
            return await work.runs.list(principal, session.id, RUNS_SHOWN)

    async def context(self, principal: Principal, session_id: str) -> dict[str, Any]:
        """Return what fills the model's window, and what summarising took out of it.

        Raises:
            NotFound: no such session of this caller, or its agent is gone.
        """
        async with self._database.work() as work:
            session = await work.sessions.get(principal, _known(session_id))
            archives = await work.archives.list(principal, session.id)
            runs = await work.runs.list(principal, session.id, 1)
            preferences = await work.preferences.get(principal)
        skills = await self._workshop.skill_parts(principal, session.agent)
        use = await context_use.measure(self._workshop, session, preferences, skills)
        return context_use.shown(use, session, runs[0] if runs else None, archives)

    # Messages ---------------------------------------------------------------------------

    async def history(
        self,
        principal: Principal,
        session_id: str,
        *,
        cursor: str | None = None,
        limit: int = 100,
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of messages with the results of their calls, oldest first.

        Raises:
            NotFound: no such session of this caller.
            BadRequest: the cursor is not of this list.
        """
        async with self._database.work() as work:
            messages, older = await work.messages.page(principal, _known(session_id), cursor, limit)
            return await history.shown(work, messages), older

    async def delete_message(self, principal: Principal, message_id: str) -> None:
        """Remove a message, with the results of its calls, for people and for the model.

        Raises:
            NotFound: no such message of this caller.
            SessionBusy: a run is active in its session.
        """
        async with self._database.work() as work:
            message = await work.messages.get(principal, _known(message_id))
            session = await self._free(work, principal, message.session_id)
            await work.messages.delete([message.id])
            # The rows stay locked meanwhile: no run can begin from the older checkpoint.
            agent = self._workshop.any_agent(session.agent)
            thread = await self._workshop.thread(agent, session.id)
            await thread.forget(message.id)

    async def feedback(
        self,
        principal: Principal,
        message_id: str,
        feedback: Literal["up", "down"] | None,
        note: str | None = None,
    ) -> dict[str, Any]:
        """Store what the user thinks of a message and return it; `None` takes it back.

        Raises:
            NotFound: no such message of this caller.
        """
        async with self._database.work() as work:
            known = _known(message_id)
            await work.messages.set_feedback(principal, known, feedback, note)
            message = await work.messages.get(principal, known)
            return (await history.shown(work, [message]))[0]

    async def tool_result(
        self, principal: Principal, message_id: str, tool_call_id: str
    ) -> ToolResultRecord:
        """Return the whole stored result of one call.

        Raises:
            NotFound: no such message or call of this caller.
        """
        async with self._database.work() as work:
            return await work.tool_results.get(principal, _known(message_id), tool_call_id)

    # Helpers ----------------------------------------------------------------------------

    async def _free(self, work: UnitOfWork, principal: Principal, session_id: str) -> SessionRecord:
        """Return the session, locked, in which no run is active."""
        session = await work.sessions.lock(principal, _known(session_id))
        active = await work.runs.active(session.id)
        if active is not None:
            raise SessionBusy(details={"run_id": active.id, "status": active.status})
        return session

    async def _change(self, principal: Principal, session_id: str, **fields: Any) -> SessionRecord:
        async with self._database.work() as work:
            session = await work.sessions.lock(principal, _known(session_id))
            await work.sessions.update(session.id, **fields)
            return await work.sessions.get(principal, session.id)


def _known(id: str) -> str:
    """Return an id as it is stored; what cannot be one is not found."""
    if not is_uuid(id):
        raise NotFound
    return id.lower()
