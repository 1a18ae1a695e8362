"""How a run comes to rest: its last events, its rows and its state, in one transaction."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage

from core import events
from core.errors import GraphwrightError
from core.faults import fault
from core.ids import derived_id, new_id, new_secret
from core.records import InterruptRecord, MessageRecord, RunRecord
from core.types import InterruptKind, InterruptStatus, MessageStatus, RunStatus
from runtime import parts
from runtime.drive import Drive
from runtime.journal import RunWriter
from runtime.rows import Ending, Rows
from runtime.sink import Partial
from runtime.thread import Closing

if TYPE_CHECKING:
    from langgraph.types import Interrupt

CANCELLED = Closing("Cancelled by the user before it was finished.")
STOPPED = Closing("The run ended with an error before this was finished.")
UNKNOWN = Closing(
    "The server stopped while this was carried out. It is not known whether it happened.",
)


async def succeed(drive: Drive) -> None:
    """End a run whose graph has reached its end."""
    rows = Rows()
    # Said of every answer: that no tool gave a source is something a reader wants to know.
    cited = events.Citations(items=drive.sources, model_only=not drive.sources)
    drive.writer.emit(cited)
    if drive.sources and drive.answer is not None:
        parts_and_sources = [*drive.answer.parts, cited.model_dump(mode="json")]
        rows.messages.append(dataclasses.replace(drive.answer, parts=parts_and_sources))
    agent = drive.ctx.agent
    drive.writer.emit(
        events.AgentDone(
            agent=agent.name,
            cn_agent=agent.label,
            agent_id=agent.name,
            duration_ms=drive.duration_ms(),
            progress="1/1",
            context_tokens=drive.ledger.context_tokens,
        )
    )
    drive.writer.emit(
        events.Done(status="success", duration_ms=drive.duration_ms(), usage=drive.ledger.total())
    )
    rows.ending = Ending(RunStatus.SUCCESS, _fields(drive))
    await _store(drive, rows)


async def wait(drive: Drive, question: Interrupt) -> None:
    """Let a run rest until a person answers."""
    value = cast("dict[str, Any]", question.value)
    kind = InterruptKind(value["kind"])
    event = events.Interrupt(
        interrupt_token=new_secret("int_"),
        message=str(value["message"]),
        agent_id=value.get("agent_id"),
        **{kind: value[kind]},
    )
    snapshot = await drive.thread.snapshot()
    place = snapshot.config.get("configurable") or {}
    run = drive.run
    drive.writer.emit(event)
    record = InterruptRecord(
        id=new_id(),
        workspace_id=run.workspace_id,
        user_id=run.user_id,
        session_id=run.session_id,
        run_id=run.id,
        token=event.interrupt_token,
        kind=kind,
        card=events.dump(event),
        graph_interrupt_id=question.id,
        checkpoint_id=str(place.get("checkpoint_id") or ""),
        status=InterruptStatus.PENDING,
        decisions=None,
        resolved_by=None,
        created_at=drive.ctx.clock.now(),
        resolved_at=None,
    )
    # What the run began with stays; how it goes on is added by the answer.
    kept = {key: item for key, item in run.input.items() if key != "resume"}
    fields = _fields(drive) | {"input": kept | {"seconds": drive.duration_ms() / 1000}}
    del fields["finished_at"]
    await _store(drive, Rows(interrupt=record, ending=Ending(RunStatus.WAITING_INPUT, fields)))
    fault("interrupt.saved")


async def cancel(drive: Drive) -> None:
    """End a run that its user stopped; what was said and done is kept."""
    rows = await _settle(drive, CANCELLED, MessageStatus.CANCELLED, None)
    drive.writer.emit(
        events.Done(status="cancelled", duration_ms=drive.duration_ms(), usage=drive.ledger.total())
    )
    rows.ending = Ending(RunStatus.CANCELLED, _fields(drive))
    await _store(drive, rows)


async def fail(drive: Drive, error: GraphwrightError) -> None:
    """End a run with an error; what was said and done is kept."""
    rows = await _settle(drive, STOPPED, MessageStatus.INCOMPLETE, error)
    _say_error(drive.writer, drive.ctx.agent.label, error, drive.duration_ms())
    rows.ending = Ending(RunStatus.FAILED, _fields(drive) | _reason(error))
    await _store(drive, rows)


async def lose(drive: Drive, error: GraphwrightError) -> None:
    """End a run whose process died and that cannot safely go on."""
    rows = await _settle(drive, UNKNOWN, MessageStatus.INCOMPLETE, error)
    _say_error(drive.writer, drive.ctx.agent.label, error, drive.duration_ms())
    rows.ending = Ending(RunStatus.INTERRUPTED, _fields(drive) | _reason(error))
    await _store(drive, rows)


async def refuse(writer: RunWriter, error: GraphwrightError, at: Any) -> None:
    """End a run that could not even be prepared, such as one whose agent is gone."""
    run = writer.run
    _say_error(writer, run.agent, error, 0)
    record = _error_message(run, error, at)
    fields = {"owner_id": None, "finished_at": at} | _reason(error)
    await writer.stage(Rows(messages=[record], ending=Ending(RunStatus.FAILED, fields)))


# Helpers ----------------------------------------------------------------------------------


async def _settle(
    drive: Drive, closing: Closing, status: MessageStatus, error: GraphwrightError | None
) -> Rows:
    """Put the thread in order and return the rows that show what became of it."""
    drive.sink.close()
    subs = await drive.sub_states()
    message_id, partial = _partial(drive)
    for other in drive.writer.buffer.partials.keys() - {message_id}:
        # Models of a foreign graph may speak side by side; the thread takes one cut turn.
        drive.writer.buffer.reset(other, "This turn was cut.")
    text = "".join(partial.text)
    messages = await drive.thread.settle(
        closing,
        message=drive.message(),
        partial=AIMessage(text, id=message_id) if text else None,
    )
    rows = Rows()
    at = drive.ctx.clock.now()
    if drive.delegations is not None:
        drive.delegations.runs.close(subs, closing, error)
    await drive.tell(messages, message_id)
    shown = parts.text_parts(text, "".join(partial.thinking))
    if shown:
        if error is not None:
            shown.append(parts.error_part(error))
        rows.messages.append(parts.message_record(drive.run, message_id, shown, at, status))
    elif error is not None:
        rows.messages.append(_error_message(drive.run, error, at))
    return rows


def _partial(drive: Drive) -> tuple[str, Partial]:
    """Return the message that was being written; of a foreign graph's several the first."""
    for message_id, partial in drive.writer.buffer.partials.items():
        return message_id, partial
    return "", Partial()


def _error_message(run: RunRecord, error: GraphwrightError, at: Any) -> MessageRecord:
    return parts.message_record(
        run,
        derived_id(run.id, "error"),
        [parts.error_part(error)],
        at,
        MessageStatus.INCOMPLETE,
    )


def _say_error(writer: RunWriter, label: str, error: GraphwrightError, duration_ms: int) -> None:
    agent = writer.run.agent
    writer.emit(
        events.AgentError(
            agent=agent,
            cn_agent=label,
            agent_id=agent,
            message=error.message,
            duration_ms=duration_ms,
        )
    )
    writer.emit(events.Error(message=error.message, code=error.code, retry_after=error.retry_after))


def _reason(error: GraphwrightError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.message}


def _fields(drive: Drive) -> dict[str, Any]:
    return {
        "owner_id": None,
        "finished_at": drive.ctx.clock.now(),
        "usage": drive.ledger.total().model_dump(mode="json"),
        "context_tokens": drive.ledger.context_tokens,
    }


async def _store(drive: Drive, rows: Rows) -> None:
    rows.usage += drive.ledger.take()
    await drive.writer.stage(rows)
