"""Rows of runs: admission, claiming, ending. The session's place is guarded by a unique index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NotRequired, TypedDict, Unpack

from sqlalchemy import (
    ARRAY,
    RowMapping,
    Select,
    Text,
    and_,
    cast,
    exc,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from core.errors import NotFound, SessionBusy
from core.principal import Principal
from core.records import RunRecord
from core.types import ACTIVE, SCRIPT, Mode, RunKind, RunStatus
from storage.failures import constraint
from storage.repository import Repository, owner_of, scope, to_record
from storage.tables import owners, runs, users

CLAIM_LOCK = 0x6777_636C
"""Key of the advisory lock under which runs are claimed, one claim at a time."""

_RUN = select(runs, users.c.name.label("user_name")).join(users, users.c.id == runs.c.user_id)


class NewRun(TypedDict):
    """What `Runs.create` is given."""

    id: str
    principal: Principal
    session_id: str
    kind: RunKind
    agent: str
    model: str
    mode: Mode
    trace_id: str
    input: dict[str, Any]
    on_disconnect: str
    at: datetime
    status: NotRequired[RunStatus]
    """`queued` where missing."""
    owner_id: NotRequired[str | None]
    """Set, with `status` running, by a script that claims its own run."""
    attempt: NotRequired[int]


class Runs(Repository):
    """`work.runs`. Reads with a principal are scoped; the others are for the engine only."""

    async def create(self, **new: Unpack[NewRun]) -> RunRecord:
        """Store a new run.

        Raises:
            SessionBusy: another run is active in the session.
        """
        principal = new["principal"]
        row: dict[str, Any] = {
            key: value for key, value in new.items() if key not in ("principal", "at")
        }
        row.setdefault("status", RunStatus.QUEUED)
        row |= owner_of(principal) | {"created_at": new["at"]}
        if row["status"] == RunStatus.RUNNING:
            row["started_at"] = new["at"]
        try:
            made = await self._one(insert(runs).values(row).returning(runs))
        except exc.IntegrityError as error:
            if constraint(error) == "uq_runs_active_session":
                raise SessionBusy from error
            raise
        assert made is not None
        return _record(made, user_name=principal.user_name)

    async def get(self, principal: Principal, run_id: str) -> RunRecord:
        """Return a run of the caller.

        Raises:
            NotFound: no such run, or somebody else's.
        """
        return await self._found(_RUN.where(scope(runs, principal), runs.c.id == run_id))

    async def of_ids(self, principal: Principal, run_ids: Sequence[str]) -> Sequence[RunRecord]:
        """Return those of these runs that are there and the caller's, in no order."""
        return _records(await self._all(_RUN.where(scope(runs, principal), runs.c.id.in_(run_ids))))

    async def by_id(self, run_id: str) -> RunRecord:
        """Return any run: for the engine, never for a request.

        Raises:
            NotFound: no such run.
        """
        return await self._found(_RUN.where(runs.c.id == run_id))

    async def lock(self, run_id: str) -> RunRecord:
        """Return any run and keep others from changing it until this transaction ends.

        Raises:
            NotFound: no such run.
        """
        return await self._found(_RUN.where(runs.c.id == run_id).with_for_update(of=runs))

    async def list(self, principal: Principal, session_id: str, limit: int = 50) -> list[RunRecord]:
        """Return the last runs of a session, newest first; none for a foreign session."""
        statement = _RUN.where(scope(runs, principal), runs.c.session_id == session_id)
        newest = (runs.c.created_at.desc(), runs.c.id.desc())
        return _records(await self._all(statement.order_by(*newest).limit(limit)))

    async def active(self, session_id: str) -> RunRecord | None:
        """Return the run that holds a session which the caller has already read, or none."""
        row = await self._one(
            _RUN.where(runs.c.session_id == session_id, runs.c.status.in_(ACTIVE))
        )
        return None if row is None else _record(row)

    async def counts(self, user_id: str) -> tuple[int, int]:
        """Return how many runs wait in the queue: of this user, and in all."""
        queued = runs.c.status == RunStatus.QUEUED
        mine = func.count().filter(runs.c.user_id == user_id)
        row = await self._one(select(mine.label("mine"), func.count().label("all")).where(queued))
        assert row is not None
        return row["mine"], row["all"]

    async def claim(
        self, owner_id: str, at: datetime, user_limit: int, served: Sequence[str] = ()
    ) -> RunRecord | None:
        """Take the fairest queued run, or none.

        The user with the fewest running comes first, among those the one who was served
        longest ago; then the oldest run.

        Claims happen one after another until their transactions end, so that `user_limit` holds
        across processes: commit soon. The run's `attempt` grows by one.

        Args:
            owner_id: who claims.
            at: the present moment.
            user_limit: runs of one user that may go at once.
            served: ids of users, the one whose run was claimed last at the end. Without it
                a single seat would serve one user's whole queue before anybody else's.
        """
        await self._execute(select(func.pg_advisory_xact_lock(CLAIM_LOCK)))
        fairest = _fairest(user_limit, served)
        row = await self._one(
            update(runs)
            .where(runs.c.id == fairest.scalar_subquery())
            .values(
                status=RunStatus.RUNNING,
                owner_id=owner_id,
                attempt=runs.c.attempt + 1,
                started_at=func.coalesce(runs.c.started_at, at),
            )
            .returning(runs.c.id)
        )
        return None if row is None else await self.by_id(row["id"])

    async def set_status(self, run_id: str, status: RunStatus, **fields: Any) -> None:
        """Set status and further columns of a run whose row this transaction has locked.

        A run that does not run any more belongs to nobody: its owner is taken off.

        Raises:
            SessionBusy: the run was over, and another one is active in its session now.
        """
        if status != RunStatus.RUNNING:
            fields.setdefault("owner_id", None)
        change = update(runs).where(runs.c.id == run_id).values(status=status, **fields)
        try:
            await self._execute(change)
        except exc.IntegrityError as error:
            if constraint(error) == "uq_runs_active_session":
                raise SessionBusy from error
            raise

    async def finish(self, run: RunRecord, status: RunStatus, at: datetime, **fields: Any) -> bool:
        """End a run only if this owner and attempt still hold it; false where they do not."""
        return bool(
            await self._changed(
                update(runs)
                .where(
                    runs.c.id == run.id,
                    runs.c.owner_id.is_not_distinct_from(run.owner_id),
                    runs.c.attempt == run.attempt,
                    runs.c.status.in_(ACTIVE),
                )
                .values(status=status, finished_at=at, owner_id=None, **fields)
            )
        )

    async def request_cancel(self, run_id: str) -> None:
        """Note that a run is to stop; whoever carries it out is told by a notification."""
        change = update(runs).where(runs.c.id == run_id, runs.c.status.in_(ACTIVE))
        await self._execute(change.values(cancel_requested=True))

    async def of_owner(self, owner_id: str) -> list[RunRecord]:
        """Return the runs that a process carries out."""
        statement = _RUN.where(runs.c.owner_id == owner_id, runs.c.status == RunStatus.RUNNING)
        return _records(await self._all(statement.order_by(runs.c.id)))

    async def of_dead_owners(
        self, before: datetime, *, scripts: bool = False, only: str | None = None
    ) -> list[RunRecord]:
        """Return running runs whose owner has not beaten since, locked; skips locked ones.

        Args:
            before: owners whose last life sign is older are dead, as are those off the list.
            scripts: leave out runs that no script began.
            only: leave out all runs but this one.
        """
        dead = or_(owners.c.id.is_(None), owners.c.beat_at < before)
        wanted = [runs.c.status == RunStatus.RUNNING, dead]
        if scripts:
            wanted.append(runs.c.input.has_key(SCRIPT))
        if only is not None:
            wanted.append(runs.c.id == only)
        statement = (
            _RUN.outerjoin(owners, owners.c.id == runs.c.owner_id)
            .where(*wanted)
            .order_by(runs.c.id)
            .with_for_update(of=runs, skip_locked=True)
        )
        return _records(await self._all(statement))

    async def count_takeover(self, run_id: str) -> None:
        """Note that a run was taken from a dead owner and goes on with its new one."""
        change = update(runs).where(runs.c.id == run_id)
        await self._execute(change.values(takeovers=runs.c.takeovers + text("1")))

    async def requeue(self, run_id: str) -> None:
        """Put a run of a dead owner back into the queue, counting the takeover."""
        await self._execute(
            update(runs)
            .where(runs.c.id == run_id, runs.c.status == RunStatus.RUNNING)
            .values(
                status=RunStatus.QUEUED,
                owner_id=None,
                takeovers=runs.c.takeovers + text("1"),
            )
        )

    async def _found(self, statement: Select[Any]) -> RunRecord:
        row = await self._one(statement)
        if row is None:
            raise NotFound
        return _record(row)


def _record(row: RowMapping, **instead: Any) -> RunRecord:
    return to_record(
        RunRecord, row, kind=RunKind(row["kind"]), status=RunStatus(row["status"]), **instead
    )


def _records(rows: Iterable[RowMapping]) -> list[RunRecord]:
    return [_record(row) for row in rows]


def _fairest(user_limit: int, served: Sequence[str]) -> Select[Any]:
    """Return the query for the id of the run that is next, its row locked."""
    # What scripts carry out themselves takes no seat from anybody.
    in_scripts = select(owners.c.id).where(owners.c.kind == SCRIPT)
    going = (
        select(runs.c.workspace_id, runs.c.user_id, func.count().label("going"))
        .where(
            runs.c.status == RunStatus.RUNNING,
            or_(runs.c.owner_id.is_(None), runs.c.owner_id.not_in(in_scripts)),
        )
        .group_by(runs.c.workspace_id, runs.c.user_id)
        .cte("going")
    )
    busy = func.coalesce(going.c.going, 0)
    turn = func.array_position(cast(list(served), ARRAY(Text)), runs.c.user_id)
    return (
        select(runs.c.id)
        .outerjoin(
            going,
            and_(
                going.c.workspace_id == runs.c.workspace_id,
                going.c.user_id == runs.c.user_id,
            ),
        )
        .where(runs.c.status == RunStatus.QUEUED, busy < user_limit)
        .order_by(busy, turn.nulls_first(), runs.c.created_at, runs.c.id)
        .limit(1)
        .with_for_update(of=runs, skip_locked=True)
    )
