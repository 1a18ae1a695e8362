"""Many runs at once, each done once: a second start goes on where the first one broke off."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack, cast

from core.errors import (
    BatchUnwritten,
    DuplicateRequest,
    GraphwrightError,
    Invalid,
    NotFound,
    Unavailable,
)
from core.log import get_logger
from core.principal import Principal
from core.records import RunRecord
from core.types import SCRIPT, RunStatus
from identity.service import LOCAL_USER
from runtime.asking import command_of
from runtime.batch_items import BatchItem, items_of, listing
from runtime.batch_output import ResultsFile
from runtime.batch_progress import Progress
from runtime.commands import ChatCommand, ResumeCommand
from runtime.engine import patiently
from runtime.execution import build_execution, let_in
from runtime.naming import known_or_none, nearest
from runtime.results import ExecutionResult, read_result
from runtime.script import RuntimeEnvironment, current, is_count

REFUSED: Final = "refused"
"""Status of an item that was not let in; the next start tries it again."""

CHUNK: Final = 500
"""Keys that are looked up at once."""

RETRY: Final = 2.0
"""Seconds between two tries while the database is away."""

_AGAIN: Final = (RunStatus.CANCELLED,)
"""What is done anew by any start: it was stopped, most likely with the batch itself."""

_FAILED: Final = (RunStatus.FAILED, RunStatus.INTERRUPTED)

log = get_logger(__name__)


class BatchOptions(TypedDict, total=False):
    """What `execute_many` takes beside items and concurrency, all by name."""

    user_name: str
    """Whose runs they are; the local owner where missing."""
    agent: str | None
    model: str | None
    mode: str | None
    """Of items that say none."""
    graph_config: Mapping[str, Any] | None
    kind: str
    name: str
    """Of the batch. The same keys under another name are other items."""
    out: Path | str | None
    """File of results, one JSON object a line."""
    retry_failed: bool
    """Whether items that failed in an earlier start are done again; else their result is kept."""
    progress: bool
    """Whether standard error is told how far it has come; it is where missing."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What came of a batch."""

    results: Sequence[ExecutionResult]
    """In the order of the items."""
    keys: Sequence[str]
    """Their keys, in the same order."""
    skipped: int
    """Items that an earlier start had done."""
    seconds: float

    @property
    def counts(self) -> Counter[str]:
        """How many items came to each status."""
        return Counter(result.status for result in self.results)

    @property
    def ok(self) -> bool:
        """Whether every item succeeded."""
        return self.counts["success"] == len(self.results)


async def execute_many(
    items: Iterable[BatchItem | Mapping[str, Any] | str],
    *,
    concurrency: int | None = None,
    **options: Unpack[BatchOptions],
) -> BatchReport:
    """Run an agent on every item, and return all results in the order of the items.

    Each item is known by its key, in the database: a start after a crash, a kill or Ctrl+C does
    what is left, takes up what was under way, and reads back what is done. One item's failure does
    not stop the others.

    Args:
        items: texts, mappings or `BatchItem`s; their keys must differ.
        concurrency: how many go at once; as many as the environment allows where missing.
        **options: see `BatchOptions`.

    Raises:
        WrongUse: no environment is entered.
        Invalid: with everything that is wrong with items and options; nothing was begun.
        Forbidden: the user is disabled.
        BatchUnwritten: results could not be written; what was done is in the database.
    """
    environment = current()
    said = _checked(options)
    wanted = items_of(items, {name: said.get(name) for name in ("agent", "model", "mode")})
    places = _places(environment, concurrency)
    _check_names(environment, wanted)
    batch = _Batch(environment, await _whose(environment, said), said)
    await batch.look_up(wanted)
    output = said.get("out")
    if output is None:
        return await batch.work(wanted, places)
    batch.file = await ResultsFile.open(Path(output))
    try:
        return await batch.work(wanted, places)
    finally:
        await batch.file.close()


class _Batch:
    """One start of a batch."""

    def __init__(
        self, environment: RuntimeEnvironment, principal: Principal, options: BatchOptions
    ) -> None:
        self._environment, self._opened = environment, environment.opened
        self._principal, self._options = principal, options
        self._name = options.get("name") or ""
        self._known: dict[str, RunRecord | None] = {}
        """The runs that items had when this start began, by request key; none: deleted."""
        self._done: dict[str, ExecutionResult] = {}
        self._skipped = 0
        self.file: ResultsFile | None = None

    async def look_up(self, items: Sequence[BatchItem]) -> None:
        """Find out which items were begun by earlier starts.

        Raises:
            Invalid: some keys stand for other messages.
        """
        asked = [item.request_id(self._name) for item in items]
        for at in range(0, len(asked), CHUNK):
            some = asked[at : at + CHUNK]
            self._known |= await patiently(self._opened.clock, partial(self._runs_of, some))
        faults = [
            f"the key {str(item.key)[:60]!r} was used for another message before."
            for item in items
            if _is_other(item, self._known.get(item.request_id(self._name)))
        ]
        if faults:
            cure = "Give changed items other keys, or the batch another name."
            raise Invalid(f"{listing(faults)}\n  {cure}")

    async def work(self, items: Sequence[BatchItem], places: int) -> BatchReport:
        """Do everything that is left, at most so many items at a time."""
        lanes = _lanes(items)
        clock = self._opened.clock
        with Progress(len(items), clock, shown=self._options.get("progress", True)) as progress:
            tasks = [
                asyncio.create_task(self._work_off(lanes, progress))
                for _ in range(min(places, len(lanes)))
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                # Once each: whoever is told twice leaves without putting things in order.
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ended:
                if isinstance(end, BaseException):
                    raise end
            seconds = progress.seconds
        if self.file is not None and self.file.failed is not None:
            raise self.file.failed
        keys = [str(item.key) for item in items]
        return BatchReport([self._done[key] for key in keys], keys, self._skipped, seconds)

    # One item ---------------------------------------------------------------------------

    async def _work_off(self, lanes: deque[deque[BatchItem]], progress: Progress) -> None:
        while lanes and (self.file is None or self.file.failed is None):
            for item in lanes.popleft():
                key = str(item.key)
                result = await self._result(item)
                self._done[key] = result
                try:
                    await self._note(key, result)
                except BatchUnwritten:
                    return  # said once, at the end, when those under way have ended
                progress.step(result.status)

    async def _note(self, key: str, result: ExecutionResult) -> None:
        if self.file is None:
            return
        known = self.file.known.get(key)
        if known is None or (known.run_id, known.status) != (result.run_id, result.status):
            await self.file.add(key, result)

    async def _result(self, item: BatchItem) -> ExecutionResult:
        request_id = item.request_id(self._name)
        if request_id not in self._known:
            return await self._run(item, None)
        run = self._known[request_id]
        if run is None:
            return _gone(item)
        anew = (*_AGAIN, *_FAILED) if self._options.get("retry_failed", False) else _AGAIN
        if run.status in anew:
            return await self._run(item, run.id)
        if run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
            return await self._attach(item, run.id)
        self._skipped += 1
        return await patiently(self._opened.clock, lambda: read_result(self._opened.database, run))

    async def _run(self, item: BatchItem, instead_of: str | None) -> ExecutionResult:
        """Let the item in and carry it out, whatever becomes of the database meanwhile."""
        command = self._command(item, instead_of)
        while True:
            try:
                async with self._opened.seats.one():
                    admitted = await let_in(self._environment, self._principal, command)
                    return await build_execution(admitted).run()
            except DuplicateRequest as known:
                return await self._attach(item, str(known.details["run_id"]))
            except Unavailable as away:
                log.warning("the database is away; the batch waits for it", exc_info=away)
                await self._opened.clock.sleep(RETRY)
            except GraphwrightError as refused:
                return _refused(item, refused.message, refused.code)

    async def _attach(self, item: BatchItem, run_id: str) -> ExecutionResult:
        """Wait for a run that is there already, and take it over where its process is dead."""
        carrier, clock = self._opened.carrier, self._opened.clock
        try:
            run = await asyncio.shield(carrier.see_through(run_id))
            if _is_other(item, run):
                said = "Another batch uses this key for another message at this moment."
                return _refused(item, said, "duplicate_request")
            return await patiently(clock, lambda: read_result(self._opened.database, run))
        except NotFound:
            return _gone(item)
        except asyncio.CancelledError:
            if carrier.holds(run_id):
                await carrier.stop(run_id)
            raise

    def _command(self, item: BatchItem, instead_of: str | None) -> ChatCommand | ResumeCommand:
        asked = {
            "user_name": self._principal.user_name,
            "message": item.message,
            "session_id": item.session_id,
            "agent": item.agent,
            "model": item.model,
            "mode": item.mode,
            "kind": self._options.get("kind"),
            "graph_config": self._options.get("graph_config"),
            "request_id": item.request_id(self._name),
        }
        note = {"key": item.key, "digest": item.digest, "batch": self._name}
        return command_of(asked, note, instead_of)

    async def _runs_of(self, request_ids: Sequence[str]) -> dict[str, RunRecord | None]:
        async with self._opened.database.work() as work:
            used = await work.request_keys.of(self._principal, request_ids)
            runs = await work.runs.of_ids(self._principal, list(used.values()))
        by_id = {run.id: run for run in runs}
        return {request_id: by_id.get(run_id) for request_id, run_id in used.items()}


# Helpers ----------------------------------------------------------------------------------


def _checked(options: BatchOptions) -> BatchOptions:
    known = BatchOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"execute_many has no option {name!r}. {nearest(name, known)}".rstrip())
    for name in ("user_name", "agent", "model", "mode", "name"):
        if not isinstance(options.get(name) or "", str):
            raise Invalid(f"{name} must be a text.")
    for name in ("retry_failed", "progress"):
        if not isinstance(options.get(name, True), bool):
            raise Invalid(f"{name} must be True or False.")
    out = cast("object", options.get("out"))
    if not isinstance(out, str | Path | None):
        raise Invalid("out must be the path of a file.")
    # Says what is wrong with these before any item is looked at.
    command_of({"user_name": "?", "message": "?", "kind": options.get("kind"),
                "graph_config": options.get("graph_config")})  # fmt: skip
    return options


async def _whose(environment: RuntimeEnvironment, options: BatchOptions) -> Principal:
    name: str | None = options.get("user_name")
    name = LOCAL_USER if name is None else name
    return await environment.opened.identity.script_principal(name)


def _places(environment: RuntimeEnvironment, concurrency: int | None) -> int:
    allowed = environment.opened.concurrency
    if concurrency is None:
        return allowed
    if not is_count(concurrency) or concurrency > allowed:
        raise Invalid(
            f"concurrency={concurrency!r}, and this environment allows 1 to {allowed} runs at once. "
            f"Enter RuntimeEnvironment(concurrency=…) with as many as you want."
        )
    return concurrency


def _check_names(environment: RuntimeEnvironment, items: Sequence[BatchItem]) -> None:
    """Refuse agents and models that there are not, before anything begins."""
    opened = environment.opened
    known = {"agent": opened.assembly.agents, "model": opened.models.names()}
    faults = [
        f"{item.called} asks for the {what} {wanted!r}, which there is not. "
        f"{nearest(wanted, names)}{known_or_none(names, f'{what}s')}"
        for what, names in known.items()
        for item in items
        if (wanted := getattr(item, what)) is not None and wanted not in names
    ]
    if faults:
        raise Invalid(listing(faults))


def _lanes(items: Sequence[BatchItem]) -> deque[deque[BatchItem]]:
    """Return what may go side by side: items of one session follow each other, in their order."""
    lanes: dict[str, deque[BatchItem]] = {}
    for item in items:
        lane = item.session_id.lower() if item.session_id else f"alone {item.key}"
        lanes.setdefault(lane, deque()).append(item)
    return deque(lanes.values())


def _is_other(item: BatchItem, run: RunRecord | None) -> bool:
    note: Any = {} if run is None else run.input.get(SCRIPT) or {}
    return note.get("digest", item.digest) != item.digest


def _gone(item: BatchItem) -> ExecutionResult:
    said = (
        "This item was begun before, and its session was deleted with what came of it. "
        "Give it another key to do it again."
    )
    return _refused(item, said, "not_found")


def _refused(item: BatchItem, said: str, code: str) -> ExecutionResult:
    session_id = item.session_id or ""
    return ExecutionResult("", session_id, REFUSED, error=said, error_code=code)
