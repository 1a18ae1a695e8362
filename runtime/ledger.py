"""Counts what a run's model calls took; implements `core.ports.Usages`."""

from __future__ import annotations

from typing import Any

from core.clock import Clock
from core.events import Usage
from core.ids import new_id
from core.records import RunRecord, UsageRecord
from core.types import UsageSource

COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")


class Ledger:
    """The tokens of one run: what earlier drives used, and what this one adds."""

    def __init__(self, run: RunRecord, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._before = dict(run.usage)
        self._rows: list[UsageRecord] = []
        self._sums: dict[str, int] = {name: int(self._before.get(name) or 0) for name in COUNTS}
        self._sources: set[str] = {str(self._before.get("usage_source") or "none")} - {"none"}
        self.context_tokens = run.context_tokens
        """Tokens that the last turn's request and answer took: how full the window is."""

    def add(self, purpose: str, usage: dict[str, Any]) -> None:
        """Count one model call."""
        counts = {name: max(int(usage.get(name) or 0), 0) for name in COUNTS}
        source = str(usage.get("usage_source") or "none")
        for name, count in counts.items():
            self._sums[name] += count
        if source != "none":
            self._sources.add(source)
        if purpose == "turn":
            self.context_tokens = counts["input_tokens"] + counts["output_tokens"]
        self._rows.append(
            UsageRecord(
                id=new_id(),
                workspace_id=self._run.workspace_id,
                user_id=self._run.user_id,
                session_id=self._run.session_id,
                run_id=self._run.id,
                agent=self._run.agent,
                model=str(usage.get("model") or self._run.model),
                purpose=purpose,
                usage_source=source,
                created_at=self._clock.now(),
                **counts,
            )
        )

    def take(self) -> list[UsageRecord]:
        """Return the calls counted since the last time, to be stored."""
        rows, self._rows = self._rows, []
        return rows

    def total(self) -> Usage:
        """Return what the whole run took so far."""
        return Usage(**self._sums, usage_source=self._source())

    def _source(self) -> UsageSource:
        if not self._sources:
            return "none"
        if self._sources == {"provider"}:
            return "provider"
        return "estimate" if self._sources == {"estimate"} else "mixed"
