"""Answers to waiting runs: checked, spent and acted on in one transaction (EXEC-20…22)."""

from __future__ import annotations

from typing import Any

from core.clock import Clock
from core.errors import NotFound, StaleInterrupt
from core.events import InterruptResolved, StoredEvent
from core.ids import is_uuid
from core.principal import Principal
from core.records import InterruptRecord, RunRecord
from core.registry import Assembly
from core.types import RunStatus
from runtime.announce import announce_events
from runtime.answers import Answer, check_answer
from runtime.commands import ResumeCommand, Submitted
from runtime.placing import Place
from storage.database import Database
from storage.work import UnitOfWork


class Interrupts:
    """The questions that runs wait with."""

    def __init__(self, database: Database, place: Place, assembly: Assembly, clock: Clock) -> None:
        self._database = database
        self._place = place
        self._assembly = assembly
        self._clock = clock

    async def pending(self, principal: Principal, session_id: str) -> dict[str, Any] | None:
        """Return the card that a session waits with, or none.

        Raises:
            NotFound: no such session of this caller.
        """
        if not is_uuid(session_id):
            raise NotFound
        async with self._database.work() as work:
            await work.sessions.get(principal, session_id)
            record = await work.interrupts.pending(principal, session_id)
        if record is None:
            return None
        return {
            "id": record.id,
            "session_id": record.session_id,
            "run_id": record.run_id,
            "kind": record.kind,
            "created_at": record.created_at,
            **record.card,
        }

    async def answer(
        self, principal: Principal, command: ResumeCommand
    ) -> tuple[Submitted, list[StoredEvent]]:
        """Spend a question's token and let its run go on with the answer.

        The session and the question are locked first, so of any number of answers at once
        exactly one is taken. A malformed answer changes nothing.

        Raises:
            NotFound: no such session of this caller.
            NoPendingInterrupt: nothing waits in this session.
            StaleInterrupt: the token is spent or not the one that waits; the details have
                what was decided.
            Invalid: the answer does not fit the card.
        """
        if not is_uuid(command.session_id):
            raise NotFound
        session_id = command.session_id.lower()
        async with self._database.work() as work:
            await work.sessions.lock(principal, session_id)
            waiting = await work.interrupts.pending(principal, session_id)
            if waiting is not None:
                # The run before its question: the order of whoever takes the run to end it.
                await work.runs.lock(waiting.run_id)
            record = await work.interrupts.take(principal, session_id, command.interrupt_token)
            run = await work.runs.get(principal, record.run_id)
            if run.status is not RunStatus.WAITING_INPUT:
                raise StaleInterrupt
            answer = check_answer(record.kind, record.card, command.answer, self._assembly.tools)
            events = await self._go_on(work, principal, record, run, answer)
        submitted = Submitted(
            run.id, session_id, run.trace_id, run.last_seq, on_disconnect=run.on_disconnect
        )
        return submitted, events

    # Helpers ----------------------------------------------------------------------------

    async def _go_on(
        self,
        work: UnitOfWork,
        principal: Principal,
        record: InterruptRecord,
        run: RunRecord,
        answer: Answer,
    ) -> list[StoredEvent]:
        now = self._clock.now()
        await work.interrupts.resolve(record.id, answer.decisions, principal.user_name, now)
        for scope, tool in answer.grants:
            await work.grants.add(
                principal, record.session_id if scope == "session" else None, tool
            )
        resume = {"interrupt_id": record.graph_interrupt_id, "value": answer.value}
        spot = self._place.spot(run)
        fields = {"owner_id": spot.owner_id, "attempt": spot.attempt}
        change = {"input": run.input | {"resume": resume}, **fields}
        await work.runs.set_status(run.id, spot.status, **change)
        event = InterruptResolved(
            interrupt_token=record.token, decisions=answer.decisions, by=principal.user_name
        )
        events = await work.events.append(run, [event], now, spot.owner_id, spot.attempt)
        await announce_events(work.connection, [(run.id, events[-1].seq)])
        await self._place.announce(work)
        return events
