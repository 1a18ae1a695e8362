"""The environment of a script: the whole product without its server, for as long as a block lasts.

    async with RuntimeEnvironment():
        result = await execute(user_name="report", message="…")

It may stand beside running servers on the same database. What a script begins it carries out
itself: its runs are never in the queue, and no server takes them as long as the script shows life
signs. Should it die, a server, or the next script, goes on with them (ADR-0023).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, cast

from core.clock import Clock, SystemClock
from core.errors import ConfigError, Fault, Unavailable, WrongUse
from core.log import get_logger
from core.records import RunRecord
from core.registry import Assembly
from core.settings import Loaded, Settings, load_settings
from core.types import SCRIPT
from identity.service import Identity
from providers.registry import ModelRegistry
from runtime import ending, opening
from runtime.carrier import STOP_SECONDS, Carrier
from runtime.composing import composed, file_stores, registered
from runtime.environment import Runtime
from runtime.naming import nearest
from runtime.preload import graphs_loaded
from runtime.seats import Seats
from storage.database import Database
from storage.migrate import migrate

RECOVER_SECONDS: Final = 5.0
"""How often runs of scripts that died are looked for."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """What an entered environment works with."""

    settings: Settings
    clock: Clock
    database: Database
    identity: Identity
    runtime: Runtime
    carrier: Carrier
    assembly: Assembly
    models: ModelRegistry
    concurrency: int
    seats: Seats
    """For the runs that `execute` may have under way, `concurrency` in all."""
    loop: asyncio.AbstractEventLoop


class RuntimeEnvironment:
    """Loads extensions and models, opens the database, and lets runs be executed.

    One at a time in a process. It can be entered again after leaving; settings, extensions and
    connections are made anew each time.
    """

    def __init__(
        self,
        *,
        scheduler: bool = False,
        prewarm: bool = True,
        billing_retry: bool = True,
        recover_interrupted: bool = True,
        settings: Settings | Mapping[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Say what is wanted; nothing is opened yet.

        Args:
            scheduler: whether schedules fire here. There are none yet, so only False works.
            prewarm: whether graphs and model clients are loaded in the background at once, not
                by the first run.
            billing_retry: whether counts of tokens that could not be stored are stored later.
                Nothing is ever left over today: counts are committed with the very step that
                they belong to, so both values do the same.
            recover_interrupted: whether runs of scripts that died are taken over and carried on
                here. False leaves them to others.
            settings: the whole configuration, or single fields by name beside `.env` and the
                environment, such as `{"data_dir": "…"}`.
            concurrency: how many runs `execute` has under way at once; the setting
                GW_WORKER_CONCURRENCY where missing.

        Raises:
            ConfigError: something is asked for that there is not.
        """
        if scheduler:
            cure = "Leave it out; start runs with execute() from a timer of your system."
            where = "RuntimeEnvironment(scheduler=True)"
            raise ConfigError([Fault(where, "Schedules are not offered yet.", cure)])
        if concurrency is not None and not is_count(concurrency):
            where = f"RuntimeEnvironment(concurrency={concurrency!r})"
            what = "This is no number of runs."
            raise ConfigError([Fault(where, what, "Give a whole number, 1 or more.")])
        self._prewarm = prewarm
        self._recover = recover_interrupted
        self._settings = settings
        self._concurrency = concurrency
        self.billing_retry = billing_retry
        self._opened: Opened | None = None
        self._stack = AsyncExitStack()
        self._owned: dict[str, RunRecord] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Open everything in the one safe order.

        Raises:
            ConfigError: settings or extensions have faults; nothing was opened.
            Unavailable: the database cannot be reached.
            WrongUse: an environment is entered in this process already.
        """
        if _current:
            raise WrongUse(
                "A RuntimeEnvironment is entered in this process already. Use that one for all "
                "runs, several at once if you like, or leave it first."
            )
        _current.append(self)
        try:
            async with AsyncExitStack() as stack:
                self._opened = await self._open(stack)
                self._stack = stack.pop_all()
        except BaseException:
            self._opened = None
            _current.remove(self)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cancel what is still under way, and close everything in reverse."""
        try:
            await self._stack.__aexit__(kind, error, traceback)
        finally:
            self._opened = None
            self._owned.clear()
            _current.remove(self)

    @property
    def opened(self) -> Opened:
        """What this environment works with.

        Raises:
            WrongUse: it is not entered, or in another event loop.
        """
        if self._opened is None:
            raise WrongUse("This RuntimeEnvironment is not entered: use it inside `async with`.")
        if self._opened.loop is not asyncio.get_running_loop():
            raise WrongUse("The RuntimeEnvironment was entered in another event loop or thread.")
        return self._opened

    @property
    def entered(self) -> bool:
        """Whether there is anything to work with."""
        return self._opened is not None

    # What executions tell it ------------------------------------------------------------

    def own(self, run: RunRecord) -> None:
        """Answer for a run until `disown`; leaving cancels it."""
        self.opened.carrier.expect(run.id)
        self._owned[run.id] = run

    def disown(self, run_id: str) -> None:
        """Answer for a run no more: it rests, or another process has it."""
        self._owned.pop(run_id, None)

    async def cancel(self, run: RunRecord) -> None:
        """End a run of this environment, driven or not, and wait for its end, but not for ever."""
        carrier = self.opened.carrier
        task = carrier.see_through(run.id, run)
        if not await carrier.stop(run.id):
            log.warning("a run did not end in time", extra={"kv": {"run": run.id}})
        if task.done():
            self.disown(run.id)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something beside; leaving waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Helpers ----------------------------------------------------------------------------

    async def _open(self, stack: AsyncExitStack) -> Opened:
        clock = SystemClock()
        loaded = _loaded(self._settings)
        settings = loaded.settings
        opening.prepare_script(loaded)
        assembly, models = composed(settings, clock, registered(settings))
        stack.push_async_callback(models.aclose)
        url = await stack.enter_async_context(opening.database_url(settings, clock))
        await migrate(url)
        database = await stack.enter_async_context(opening.database_at(url, settings))
        stores = file_stores(settings)
        runtime = Runtime(settings, database, models, assembly, stores, clock, kind="script")
        places = self._concurrency or settings.worker_concurrency
        seats = Seats(places)
        carrier = Carrier(database, runtime, clock, seats)
        opened = Opened(
            settings=settings,
            clock=clock,
            database=database,
            identity=Identity(database, settings, clock),
            runtime=runtime,
            carrier=carrier,
            assembly=assembly,
            models=models,
            concurrency=places,
            seats=seats,
            loop=asyncio.get_running_loop(),
        )
        runtime.strays.decide = functools.partial(_about_stray, opened)
        await stack.enter_async_context(runtime)
        stack.push_async_callback(self._end, opened)
        if self._prewarm:
            self._beside(stack, _warm(models))
        if self._recover:
            await _recovered(opened)
            self._beside(stack, _recover_for_ever(opened))
        return opened

    def _beside(self, stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        stack.push_async_callback(end)

    async def _end(self, opened: Opened) -> None:
        """Bring everything that was begun here to rest before the runtime goes."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        if self._owned:
            log.warning("the environment was left with runs under way; they are cancelled")
            await asyncio.gather(*(self.cancel(run) for run in list(self._owned.values())))
        await opened.carrier.leave(opened.settings.drain_seconds)
        with contextlib.suppress(Unavailable):
            for run in await opened.runtime.claims.held():
                if not opened.runtime.engine.deals_with(run.id) and _key_of(run) is None:
                    await _about_stray(opened, run)


_current: list[RuntimeEnvironment] = []
"""The environment that is entered, if one is."""


def current() -> RuntimeEnvironment:
    """Return the environment that is entered.

    Raises:
        WrongUse: none is.
    """
    if not _current:
        raise WrongUse("Call this inside `async with RuntimeEnvironment():`.")
    return _current[0]


# Helpers ----------------------------------------------------------------------------------


def is_count(value: object) -> bool:
    """Tell whether something is a whole number of runs, one or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _loaded(given: Settings | Mapping[str, Any] | None) -> Loaded:
    if isinstance(given, Settings):
        return Loaded(given)
    kind = cast("object", given)
    if not isinstance(kind, Mapping | None):
        what = f"settings is {type(kind).__name__}, neither Settings nor a mapping."
        where = "RuntimeEnvironment(settings=…)"
        raise ConfigError([Fault(where, what, 'Write settings={"data_dir": "…"}.')])
    fields = dict(given or {})
    unknown = [name for name in fields if name not in Settings.model_fields]
    if unknown:
        raise ConfigError(
            [
                Fault(
                    f"RuntimeEnvironment(settings={{{name!r}: …}})",
                    "There is no setting of that name.",
                    nearest(name, Settings.model_fields)
                    or "Use a field of core.settings.Settings.",
                )
                for name in unknown
            ]
        )
    return load_settings(**fields)


def _key_of(run: RunRecord) -> str | None:
    note: Any = run.input.get(SCRIPT) or {}
    return note.get("key")


async def _about_stray(opened: Opened, run: RunRecord) -> None:
    """Deal with a run that is ours while nobody here knows of it: its admission broke off.

    An item of a batch will be asked for again by its key. Anything else was reported as refused.
    """
    if _key_of(run) is None:
        await opened.runtime.engine.attend(run, ending.cancel)
    else:
        opened.carrier.see_through(run.id)


async def _warm(models: ModelRegistry) -> None:
    """Load what the first run would otherwise have to wait for."""
    await graphs_loaded()
    await models.warm()


async def _recovered(opened: Opened) -> None:
    try:
        await opened.carrier.recover()
    except Unavailable as away:
        log.warning("runs of scripts that died could not be looked for", exc_info=away)


async def _recover_for_ever(opened: Opened) -> None:
    while True:
        await opened.clock.sleep(RECOVER_SECONDS)
        await _recovered(opened)
