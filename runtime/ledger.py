"""Counts what a run's model calls took; implements `core.ports.Usages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.clock import Clock
from core.events import Usage
from core.ids import new_id
from core.records import RunRecord, UsageRecord
from core.types import UsageSource

COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


class Ledger:
    """The tokens of one run: what earlier drives used, and what this one adds."""

    def __init__(self, run: RunRecord, clock: Clock, before: Sequence[UsageRecord] = ()) -> None:
        """Begin to count.

        Args:
            run: whose model calls are counted.
            clock: when they were.
            before: those of earlier drives. The run's own row knows them only once it rested,
                not after a crash.
        """
        self._run = run
        self._clock = clock
        self._rows: list[UsageRecord] = []
        self._sums: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self._sources: set[str] = set()
        self.calls = 0
        """Model calls so far, those of summaries left out."""
        self.context_tokens = run.context_tokens
        """Tokens that the last turn's request and answer took: how full the window is."""
        for row in before:
            self._sum(row)

    def add(self, purpose: str, usage: dict[str, Any], *, agent: str = "") -> None:
        """Count one model call.

        Args:
            purpose: what it was for.
            usage: its tokens, `model` and `usage_source`.
            agent: who made it, where that is not the run's own agent.
        """
        counts = {name: max(int(usage.get(name) or 0), 0) for name in COUNTS}
        if purpose == "turn" and not agent:
            self.context_tokens = counts["input_tokens"] + counts["output_tokens"]
        self._rows.append(
            UsageRecord(
                id=new_id(),
                workspace_id=self._run.workspace_id,
                user_id=self._run.user_id,
                session_id=self._run.session_id,
                run_id=self._run.id,
                agent=agent or self._run.agent,
                model=str(usage.get("model") or self._run.model),
                purpose=purpose,
                usage_source=str(usage.get("usage_source") or "none"),
                created_at=self._clock.now(),
                **counts,
            )
        )
        self._sum(self._rows[-1])

    def take(self) -> list[UsageRecord]:
        """Return the calls counted since the last time, to be stored."""
        rows, self._rows = self._rows, []
        return rows

    def total(self) -> Usage:
        """Return what the whole run took so far."""
        return Usage(**self._sums, usage_source=self._source())

    def _sum(self, row: UsageRecord) -> None:
        for name in COUNTS:
            self._sums[name] += getattr(row, name)
        if row.usage_source != "none":
            self._sources.add(row.usage_source)
        self.calls += row.purpose != "summary"

    def _source(self) -> UsageSource:
        if not self._sources:
            return "none"
        if self._sources == {"provider"}:
            return "provider"
        return "estimate" if self._sources == {"estimate"} else "mixed"
