"""Rows of messages: what the user sees, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import RowMapping, and_, delete, exists, select, update
from sqlalchemy.dialects.postgresql import insert

from core.errors import NotFound
from core.principal import Principal
from core.records import MessageRecord
from core.types import MessageStatus
from storage.cursors import decode_cursor, encode_cursor
from storage.repository import Repository, owner_of, scope, to_record, to_row
from storage.tables import messages, sessions, tool_results


class Messages(Repository):
    """`work.messages`."""

    async def add(self, principal: Principal, message: MessageRecord) -> MessageRecord:
        """Store a message at the session's next place, or replace parts and status of a stored one.

        The place is given under the session's row lock; `message.position` is not looked at.

        Returns:
            The message as stored.

        Raises:
            NotFound: the session, or the message of that id, is not the principal's.
        """
        old = await self._one(
            update(messages)
            .where(
                scope(messages, principal),
                messages.c.id == message.id,
                messages.c.session_id == message.session_id,
            )
            .values(parts=message.parts, text=_words(message.parts), status=message.status)
            .returning(messages)
        )
        return _record(old) if old is not None else await self._insert(principal, message)

    async def _insert(self, principal: Principal, message: MessageRecord) -> MessageRecord:
        place = await self._one(
            update(sessions)
            .where(scope(sessions, principal), sessions.c.id == message.session_id)
            .values(next_position=sessions.c.next_position + 1)
            .returning(sessions.c.next_position)
        )
        if place is None:
            raise NotFound
        row = to_row(message, messages) | owner_of(principal)
        row |= {"position": place["next_position"], "text": _words(message.parts)}
        # A message of that id appeared meanwhile, or is somebody else's: the condition tells.
        statement = insert(messages).values(row)
        made = await self._one(
            statement.on_conflict_do_update(
                index_elements=["id"],
                set_={key: statement.excluded[key] for key in ("parts", "text", "status")},
                where=and_(scope(messages, principal), messages.c.session_id == message.session_id),
            ).returning(messages)
        )
        if made is None:
            raise NotFound
        return _record(made)

    async def page(
        self, principal: Principal, session_id: str, before: str | None = None, limit: int = 50
    ) -> tuple[list[MessageRecord], str | None]:
        """Return a page of the history, oldest message first, and the cursor of the page before it.

        Args:
            principal: whose session.
            session_id: the session.
            before: `next_cursor` of the page after it; missing means the end of the history.
            limit: messages on a page.

        Raises:
            NotFound: no such session, or somebody else's.
            BadRequest: the cursor is not of this list.
        """
        statement = select(messages).where(
            scope(messages, principal), messages.c.session_id == session_id
        )
        if before is not None:
            (position,) = decode_cursor("messages", before, (int,))
            statement = statement.where(messages.c.position < position)
        rows = await self._all(statement.order_by(messages.c.position.desc()).limit(limit + 1))
        if not rows:
            await self._check(principal, session_id)
        items = [_record(row) for row in reversed(rows[:limit])]
        more = len(rows) > limit
        return items, encode_cursor("messages", (items[0].position,)) if more else None

    async def _check(self, principal: Principal, session_id: str) -> None:
        own = exists().where(scope(sessions, principal), sessions.c.id == session_id)
        found = await self._one(select(own.label("own")))
        if found is None or not found["own"]:
            raise NotFound

    async def get(self, principal: Principal, message_id: str) -> MessageRecord:
        """Return a message of the caller.

        Raises:
            NotFound: no such message, or somebody else's.
        """
        row = await self._one(
            select(messages).where(scope(messages, principal), messages.c.id == message_id)
        )
        if row is None:
            raise NotFound
        return _record(row)

    async def of_run(self, run_id: str) -> list[MessageRecord]:
        """Return the messages of a run that the caller has already read, in order."""
        return await self._in_order(messages.c.run_id == run_id)

    async def after(self, session_id: str, position: int) -> list[MessageRecord]:
        """Return the messages behind a place in a session that the caller has already read."""
        return await self._in_order(
            and_(messages.c.session_id == session_id, messages.c.position > position)
        )

    async def _in_order(self, condition: Any) -> list[MessageRecord]:
        rows = await self._all(select(messages).where(condition).order_by(messages.c.position))
        return [_record(row) for row in rows]

    async def delete(self, ids: Sequence[str]) -> None:
        """Remove messages that the caller has already read, with the results of their calls."""
        await self._execute(delete(tool_results).where(tool_results.c.message_id.in_(ids)))
        await self._execute(delete(messages).where(messages.c.id.in_(ids)))

    async def set_feedback(
        self, principal: Principal, message_id: str, feedback: str | None, note: str | None
    ) -> None:
        """Store what the user thinks of a message; `None` takes it back.

        Raises:
            NotFound: no such message, or somebody else's.
        """
        change = update(messages).where(scope(messages, principal), messages.c.id == message_id)
        if not await self._changed(change.values(feedback=feedback, feedback_note=note)):
            raise NotFound


def _words(parts: Iterable[dict[str, Any]]) -> str:
    """Return the text that searching looks at."""
    return "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def _record(row: RowMapping) -> MessageRecord:
    return to_record(MessageRecord, row, status=MessageStatus(row["status"]))
