"""Rows of the tool journal: which calls of a run began, and how they ended (EXEC-35)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from core.ports import Begun
from core.records import RunRecord
from storage.repository import Repository
from storage.sealing import Keys
from storage.text import storable

# A try whose reply was lost is made again with the same mark, and does not count twice.
_BEGIN: Final = """
WITH held AS MATERIALIZED (
    SELECT graphwright_hold_run(%(run)s, %(owner)s, %(attempt)s)
), before AS (
    SELECT starts - (mark = %(mark)s)::int AS starts, type, blob FROM tool_journal
    WHERE run_id = %(run)s AND call_id = %(call)s
), put AS (
    INSERT INTO tool_journal (run_id, call_id, tool, starts, mark, started_at)
    SELECT %(run)s, %(call)s, %(tool)s, 1, %(mark)s, %(at)s FROM held
    ON CONFLICT (run_id, call_id) DO UPDATE
    SET starts = tool_journal.starts + 1, mark = excluded.mark, started_at = excluded.started_at
    WHERE tool_journal.mark <> excluded.mark AND tool_journal.starts <= %(agreed)s
    AND tool_journal.type IS NULL
)
SELECT coalesce(starts, 0), type, blob FROM held LEFT JOIN before ON true
"""

_END: Final = """
WITH held AS MATERIALIZED (
    SELECT graphwright_hold_run(%(run)s, %(owner)s, %(attempt)s)
)
UPDATE tool_journal SET type = %(type)s, blob = %(blob)s, ended_at = %(at)s
FROM held WHERE run_id = %(run)s AND call_id = %(call)s
"""

_WITHDRAW: Final = """
WITH held AS MATERIALIZED (
    SELECT graphwright_hold_run(%(run)s, %(owner)s, %(attempt)s)
)
UPDATE tool_journal SET starts = starts - 1, mark = ''
FROM held WHERE run_id = %(run)s AND call_id = %(call)s AND mark = %(mark)s AND type IS NULL
"""

_FORM: Final = "outcome"
"""What is sealed; beside it stands the name of the key, as in checkpoints."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """One beginning of one call."""

    run: RunRecord
    call: str
    tool: str
    mark: str
    """Tells this beginning from others of the same call."""

    def values(self, **more: Any) -> dict[str, Any]:
        """Return what the statements ask for."""
        claim = {"run": self.run.id, "owner": self.run.owner_id, "attempt": self.run.attempt}
        return claim | {"call": self.call, "tool": self.tool, "mark": self.mark} | more


class Calls(Repository):
    """`work.calls`. Every method raises `RunLost` where the run is not held under this claim."""

    async def begin(self, one: Beginning, at: datetime, *, agreed: int, keys: Keys) -> Begun:
        """Note that a call begins; see `core.ports.CallJournal`."""
        cursor = await self._raw.execute(_BEGIN, one.values(at=at, agreed=agreed))
        row = await cursor.fetchone()
        assert row is not None
        starts, form, sealed = row
        if form is None:
            return Begun(starts)
        name = form.partition("+")[2]
        return Begun(starts, json.loads(keys.open(name, sealed, about=_FORM.encode())))

    async def end(
        self, one: Beginning, outcome: Mapping[str, Any], at: datetime, *, keys: Keys
    ) -> None:
        """Note how a call ended."""
        name, sealed = keys.seal(storable(dict(outcome))[1], about=_FORM.encode())
        await self._raw.execute(_END, one.values(type=f"{_FORM}+{name}", blob=sealed, at=at))

    async def withdraw(self, one: Beginning) -> None:
        """Take a beginning back."""
        await self._raw.execute(_WITHDRAW, one.values())
