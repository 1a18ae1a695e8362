"""Rows of sessions: conversations, listed, searched, and deleted with all that hangs on them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack

from sqlalchemy import (
    ColumnElement,
    RowMapping,
    Select,
    delete,
    exists,
    insert,
    lateral,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)

from core.errors import NotFound
from core.principal import Principal
from core.records import SessionRecord
from core.types import Mode
from storage.cursors import decode_cursor, encode_cursor
from storage.repository import Repository, like, owner_of, scope, to_record
from storage.tables import messages, projects, run_events, runs, sessions, usage_events

SNIPPET = 160
"""Characters of a message shown around what was searched for."""

_PINNED = sessions.c.pinned_at.is_not(None)
_ORDER = (_PINNED.desc(), sessions.c.updated_at.desc(), sessions.c.id.desc())
_PLACE = (bool, datetime, str)
"""Types of the cursor's values: pinned, updated_at, id."""


class NewSession(TypedDict):
    """What `Sessions.create` is given."""

    id: str
    principal: Principal
    project_id: str
    agent: str
    title: str
    mode: Mode
    model: str | None
    thinking: str | None
    at: datetime


class Sessions(Repository):
    """`work.sessions`."""

    async def create(self, **new: Unpack[NewSession]) -> SessionRecord:
        """Store a new session of the principal, its title marked as cut from the first text."""
        row: dict[str, Any] = {
            **{key: new[key] for key in ("id", "project_id", "agent", "title", "mode")},
            **{key: new[key] for key in ("model", "thinking")},
            **owner_of(new["principal"]),
            "title_source": "cut",
            "created_at": new["at"],
            "updated_at": new["at"],
        }
        made = await self._one(insert(sessions).values(row).returning(sessions))
        assert made is not None
        return to_record(SessionRecord, made)

    async def get(self, principal: Principal, session_id: str) -> SessionRecord:
        """Return a session of the caller.

        Raises:
            NotFound: no such session, or somebody else's.
        """
        return await self._own(_own(principal, session_id))

    async def lock(self, principal: Principal, session_id: str) -> SessionRecord:
        """Return a session and keep other transactions from locking it until this one ends.

        Raises:
            NotFound: no such session, or somebody else's.
        """
        return await self._own(_own(principal, session_id).with_for_update())

    async def _own(self, statement: Select[Any]) -> SessionRecord:
        row = await self._one(statement)
        if row is None:
            raise NotFound
        return to_record(SessionRecord, row)

    async def list(
        self,
        principal: Principal,
        *,
        cursor: str | None = None,
        limit: int = 50,
        **filters: str | None,
    ) -> tuple[list[SessionRecord], str | None]:
        """Return a page of the caller's sessions, pinned ones first, then the newest.

        Args:
            principal: whose sessions.
            cursor: `next_cursor` of the page before.
            limit: sessions on a page.
            filters: `project` (id or name), `agent`, `text` (part of the title).

        Raises:
            BadRequest: the cursor is not of this list.
        """
        statement = select(sessions).where(scope(sessions, principal), *_conditions(filters))
        if cursor is not None:
            statement = statement.where(_after(decode_cursor("sessions", cursor, _PLACE)))
        rows = await self._all(statement.order_by(*_ORDER).limit(limit + 1))
        items = [to_record(SessionRecord, row) for row in rows[:limit]]
        return items, _next_cursor("sessions", items, more=len(rows) > limit)

    async def search(
        self, principal: Principal, q: str, cursor: str | None = None, limit: int = 20
    ) -> tuple[list[tuple[SessionRecord, str | None]], str | None]:
        """Return the caller's sessions whose title or messages contain the text.

        Each comes with a piece of the newest message that contains it (none where only the
        title does). Order and cursor are those of `list`.

        Raises:
            BadRequest: the cursor is not of this search.
        """
        pattern = like(q)
        found = lateral(
            select(messages.c.text.label("found"))
            .where(messages.c.session_id == sessions.c.id, messages.c.text.ilike(pattern))
            .order_by(messages.c.position.desc())
            .limit(1)
        ).alias("hit")
        statement = (
            select(sessions, found.c.found)
            .outerjoin_from(sessions, found, literal(value=True))
            .where(
                scope(sessions, principal),
                or_(sessions.c.title.ilike(pattern), found.c.found.is_not(None)),
            )
        )
        if cursor is not None:
            statement = statement.where(_after(decode_cursor("search", cursor, _PLACE)))
        rows = await self._all(statement.order_by(*_ORDER).limit(limit + 1))
        items = [(to_record(SessionRecord, row), _snippet(row, q)) for row in rows[:limit]]
        sorted_by = [session for session, _ in items]
        return items, _next_cursor("search", sorted_by, more=len(rows) > limit)

    async def update(self, session_id: str, **fields: Any) -> None:
        """Set columns of a session that the caller has read or locked in this transaction."""
        await self._execute(update(sessions).where(sessions.c.id == session_id).values(fields))

    async def touch(self, session_id: str, at: datetime) -> None:
        """Bring the session to the top of the list."""
        await self.update(session_id, updated_at=at)

    async def any_in_project(self, project_id: str) -> bool:
        """Tell whether a session works in this project."""
        found = await self._one(select(exists().where(sessions.c.project_id == project_id)))
        return bool(found and next(iter(found.values())))

    async def delete(self, principal: Principal, session_id: str) -> str | None:
        """Remove a session and everything that carries its id, checkpoints included.

        Request keys stay, so that an old request is not run again; usage stays without the
        session's and the run's name. The session row is locked first: nobody adds to it meanwhile.

        Returns:
            The id of its project, whose files are now nobody's, or none where others share it.

        Raises:
            NotFound: no such session, or somebody else's.
        """
        session = await self.lock(principal, session_id)
        of_session = select(runs.c.id).where(runs.c.session_id == session_id)
        await self._execute(delete(run_events).where(run_events.c.run_id.in_(of_session)))
        await self._execute(
            update(usage_events)
            .where(usage_events.c.session_id == session_id)
            .values(session_id=None, run_id=None)
        )
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            await self._execute(
                text(f"DELETE FROM {table} WHERE thread_id = :id").bindparams(id=session_id)  # noqa: S608
            )
        # Runs, messages, results, questions, archives and grants go with the row.
        await self._execute(delete(sessions).where(sessions.c.id == session_id))
        # Another deletion in the same project waits here, so that one of the two sees the end.
        await self._execute(
            select(projects.c.id).where(projects.c.id == session.project_id).with_for_update()
        )
        if await self.any_in_project(session.project_id):
            return None
        await self._execute(delete(projects).where(projects.c.id == session.project_id))
        return session.project_id


def _own(principal: Principal, session_id: str) -> Select[Any]:
    return select(sessions).where(scope(sessions, principal), sessions.c.id == session_id)


def _conditions(filters: dict[str, str | None]) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if project := filters.pop("project", None):
        named = select(projects.c.id).where(
            projects.c.id == sessions.c.project_id, projects.c.name == project
        )
        conditions.append(or_(sessions.c.project_id == project, named.exists()))
    if agent := filters.pop("agent", None):
        conditions.append(sessions.c.agent == agent)
    if part := filters.pop("text", None):
        conditions.append(sessions.c.title.ilike(like(part)))
    if filters:
        raise TypeError(f"unknown filters: {', '.join(filters)}")
    return conditions


def _after(place: Sequence[Any]) -> ColumnElement[bool]:
    return tuple_(_PINNED, sessions.c.updated_at, sessions.c.id) < tuple_(*map(literal, place))


def _next_cursor(kind: str, items: Sequence[SessionRecord], *, more: bool) -> str | None:
    if not more or not items:
        return None
    last = items[-1]
    return encode_cursor(kind, (last.pinned_at is not None, last.updated_at, last.id))


def _snippet(row: RowMapping, q: str) -> str | None:
    found: str | None = row["found"]
    if found is None:
        return None
    at = max(found.lower().find(q.lower()), 0)
    begin = max(at - SNIPPET // 2, 0)
    piece = " ".join(found[begin : begin + SNIPPET].split())
    return ("…" if begin else "") + piece + ("…" if begin + SNIPPET < len(found) else "")
