"""What is stored together with the events of one boundary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from core.principal import Principal
from core.records import (
    ArchiveRecord,
    InterruptRecord,
    MessageRecord,
    RunRecord,
    ToolResultRecord,
    UsageRecord,
)
from core.types import RunStatus, UserId, WorkspaceId
from storage.work import UnitOfWork


def owner_of(run: RunRecord) -> Principal:
    """Return the person a run belongs to, as the one on whose behalf it reads and writes."""
    return Principal(
        workspace_id=WorkspaceId(run.workspace_id),
        user_id=UserId(run.user_id),
        user_name=run.user_name,
        via="script",
    )


@dataclass(frozen=True, slots=True)
class Ending:
    """The state a run comes to rest in, and what its row says of it."""

    status: RunStatus
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Rows:
    """Rows of one run that are committed with its events, or not at all."""

    messages: list[MessageRecord] = field(default_factory=list[MessageRecord])
    tool_results: list[ToolResultRecord] = field(default_factory=list[ToolResultRecord])
    usage: list[UsageRecord] = field(default_factory=list[UsageRecord])
    archives: list[ArchiveRecord] = field(default_factory=list[ArchiveRecord])
    interrupt: InterruptRecord | None = None
    ending: Ending | None = None

    def add(self, other: Rows) -> None:
        """Take the other's rows after these."""
        self.messages += other.messages
        self.tool_results += other.tool_results
        self.usage += other.usage
        self.archives += other.archives
        self.interrupt = other.interrupt or self.interrupt
        self.ending = other.ending or self.ending

    def __bool__(self) -> bool:
        """Tell whether there is anything to store."""
        lists = (self.messages, self.tool_results, self.usage, self.archives)
        return any(lists) or self.interrupt is not None or self.ending is not None

    async def write(self, work: UnitOfWork, run: RunRecord) -> None:
        """Store everything inside the caller's transaction, the run's end last."""
        principal = owner_of(run)
        for message in self.messages:
            await work.messages.add(principal, message)
        for result in self.tool_results:
            await work.tool_results.add(principal, result)
        for usage in self.usage:
            await work.usage.add(usage)
        for archive in self.archives:
            await work.archives.add(principal, archive)
        if self.interrupt is not None:
            await work.interrupts.add(self.interrupt)
        if self.ending is not None:
            await work.runs.set_status(run.id, self.ending.status, **self.ending.fields)
