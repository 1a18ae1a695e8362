"""Rows of the journal: numbered without gaps under the run's row lock, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import orjson
from psycopg.rows import dict_row

from core.errors import NotFound, RunLost
from core.events import Event, StoredEvent, dump
from core.records import RunRecord
from core.types import RunStatus
from storage.repository import Repository
from storage.text import clean_json, storable

_APPEND: Final = """
WITH run AS (
    UPDATE runs SET last_seq = last_seq + %(count)s
    WHERE id = %(run)s AND owner_id IS NOT DISTINCT FROM %(owner)s AND attempt = %(attempt)s
    RETURNING id, workspace_id, user_id, last_seq - %(count)s AS base
), stored AS (
    INSERT INTO run_events (run_id, seq, workspace_id, user_id, at, data)
    SELECT run.id, run.base + event.place, run.workspace_id, run.user_id, %(at)s, event.data
    FROM run, jsonb_array_elements(%(events)s::jsonb) WITH ORDINALITY AS event (data, place)
)
SELECT base FROM run
"""

_AFTER: Final = """
SELECT run.status, run.last_seq, run.session_id, run.trace_id, event.seq, event.at, event.data
FROM runs AS run LEFT JOIN LATERAL (
    SELECT seq, at, data FROM run_events
    WHERE run_id = run.id AND seq > %(after)s ORDER BY seq LIMIT %(limit)s
) AS event ON true
WHERE run.id = %(run)s ORDER BY event.seq
"""


class Events(Repository):
    """`work.events`."""

    async def append(
        self,
        run: RunRecord,
        events: Sequence[Event],
        at: datetime,
        owner_id: str | None,
        attempt: int,
    ) -> list[StoredEvent]:
        """Number and store events of a run, and lock its row until this transaction ends.

        The condition on owner and attempt holds for everything else that the transaction does
        for this run. With no events it only checks and locks.

        Args:
            run: the run; its `last_seq` is not looked at.
            events: in order.
            at: the moment written beside them.
            owner_id: who carries the run out; `None` for a run that nobody carries out.
            attempt: the claim under which this is written.

        Raises:
            RunLost: owner or attempt are not those of the run (any more).
        """
        kept = [storable(_dumped(event)) for event in events]
        values = {
            "run": run.id,
            "owner": owner_id,
            "attempt": attempt,
            "count": len(kept),
            "at": at,
            "events": "[" + ",".join(encoded.decode() for _, encoded in kept) + "]",
        }
        cursor = await self._raw.execute(_APPEND, values)
        row = await cursor.fetchone()
        if row is None:
            raise RunLost("This run is carried out by somebody else now.")
        base: int = row[0]
        return [
            StoredEvent.model_construct(
                session_id=run.session_id,
                run_id=run.id,
                seq=base + place,
                at=at,
                trace_id=run.trace_id,
                data=data,
            )
            for place, (data, _) in enumerate(kept, start=1)
        ]

    async def after(
        self, run_id: str, seq: int, limit: int
    ) -> tuple[list[StoredEvent], RunStatus, int]:
        """Return events behind a number, with the run's status and last number of that moment.

        One statement, so that the three belong together: when the status says that the run
        rests, and the last number was reached, nothing is missing.

        Raises:
            NotFound: no such run. Whether the caller may see it is checked before.
        """
        async with self._raw.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(_AFTER, {"run": run_id, "after": seq, "limit": limit})
            rows = await cursor.fetchall()
        if not rows:
            raise NotFound
        events = [_event(run_id, row) for row in rows if row["seq"] is not None]
        return events, RunStatus(rows[0]["status"]), rows[0]["last_seq"]


def _dumped(event: Event) -> dict[str, Any]:
    try:
        return dump(event)
    except ValueError:
        # Arguments nested more deeply than can be encoded: a mark takes the place of the depth.
        parts = {name: clean_json(part) for name, part in event if isinstance(part, dict | list)}
        return dump(event.model_copy(update=parts))


def _event(run_id: str, row: dict[str, Any]) -> StoredEvent:
    data = row["data"]
    return StoredEvent.model_construct(
        session_id=row["session_id"],
        run_id=run_id,
        seq=row["seq"],
        at=row["at"],
        trace_id=row["trace_id"],
        data=data if isinstance(data, dict) else orjson.loads(data),
    )
