"""What came of a run, as a script gets it; read from the database, whoever carried the run out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from core.events import Usage
from core.records import InterruptRecord, MessageRecord, RunRecord
from core.types import RunStatus
from runtime.rows import owner_of
from storage.database import Database


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What came of a run."""

    run_id: str
    session_id: str
    status: str
    """`success`, `failed`, `cancelled`, `interrupted` (its process died and it could not safely
    go on) or `waiting_input`."""
    output: str = ""
    """The last thing that the agent said; also what it had said before it failed."""
    error: str | None = None
    """Why it failed, for people; `None` where it did not."""
    usage: Usage = field(default_factory=Usage)
    citations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Where the answer's facts came from."""
    interrupts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What it waits with: `kind`, `interrupt_token`, `message` and the card of that kind."""
    error_code: str | None = None
    """The code of the error, one of those that docs/api.md lists."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON-ready data."""
        fields = {name: value for name, value in _shallow(self).items() if name != "usage"}
        return fields | {"usage": self.usage.model_dump(mode="json")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ExecutionResult:
        """Return the result that `as_json` wrote; unknown fields are left out.

        Raises:
            ValueError, TypeError: it is no such thing.
        """
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["usage"] = Usage.model_validate(known.get("usage") or {})
        return cls(**known)


async def read_result(database: Database, run: RunRecord) -> ExecutionResult:
    """Return what came of a run that rests.

    Raises:
        Unavailable: the database is away.
    """
    async with database.work() as work:
        messages = await work.messages.of_run(run.id)
        waiting: InterruptRecord | None = None
        if run.status == RunStatus.WAITING_INPUT:
            waiting = await work.interrupts.pending(owner_of(run), run.session_id)
    return ExecutionResult(
        run_id=run.id,
        session_id=run.session_id,
        status=run.status.value,
        output=_output(messages),
        error=run.error_message,
        usage=Usage.model_validate(run.usage),
        citations=_citations(messages),
        interrupts=[_card(waiting)] if waiting is not None else [],
        error_code=run.error_code,
    )


# Helpers ----------------------------------------------------------------------------------


def _shallow(result: ExecutionResult) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


def _output(messages: list[MessageRecord]) -> str:
    """Return the text of the last message of the agent that has any."""
    for message in reversed(messages):
        if message.role == "assistant":
            text = "".join(part["text"] for part in message.parts if part.get("type") == "text")
            if text:
                return text
    return ""


def _citations(messages: list[MessageRecord]) -> list[dict[str, Any]]:
    for message in reversed(messages):
        for part in message.parts:
            if part.get("type") == "citations":
                return cast("list[dict[str, Any]]", part["items"])
    return []


def _card(record: InterruptRecord) -> dict[str, Any]:
    card = {name: value for name, value in record.card.items() if name != "type"}
    return {"kind": record.kind.value, **card}
