"""Services of extensions: started in the order of their needs, closed the other way round.

Each service lives in a task of its own, which enters and leaves its context manager: libraries
that count on being closed by the task that opened them (anyio) work, and a start that is
cancelled cannot tear one apart half-way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, cast

from core.errors import ConfigError, Fault, ServiceMissing
from core.log import get_logger
from core.masking import mask
from core.registry import ServiceSpec

log = get_logger(__name__)

_CLOSE_SECONDS: Final = 30.0
"""What a service has to close in before it is cancelled, and again before it is left behind."""

_collecting: ContextVar[bool] = ContextVar("graphwright_collecting", default=False)
_mine: ContextVar[Services | None] = ContextVar("graphwright_services", default=None)
_open: list[Services] = []
"""Those of this process that are open; nearly always one."""


def get_service(name: str) -> Any:
    """Return a running service by the name it was registered with.

    Call it where the service is used: inside a tool, a route, another service. While modules are
    imported and `setup` runs, nothing has been started yet.

    Raises:
        ServiceMissing: it does not run (yet, or any more), or nobody registered it.
    """
    if _collecting.get():
        raise ServiceMissing(
            f"get_service({name!r}) was called while extensions are loaded; services start later. "
            "Call it inside the tool that uses it."
        )
    own = _mine.get()
    if own is None or own not in _open:
        own = _open[-1] if _open else None
    if own is None:
        raise ServiceMissing(
            f"get_service({name!r}) was called while no services run. Call it inside a tool, "
            "between the start and the end of the server or of RuntimeEnvironment."
        )
    return own.get(name)


@contextmanager
def collecting() -> Generator[None]:
    """Let `get_service` refuse inside: extensions are being imported and set up."""
    token = _collecting.set(True)
    try:
        yield
    finally:
        _collecting.reset(token)


@dataclass(eq=False, slots=True)
class _Service:
    """One service: its task, and what that task and the others tell each other."""

    spec: ServiceSpec
    task: asyncio.Task[None] | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it runs, or once it is clear that it never will."""
    end: asyncio.Event = field(default_factory=asyncio.Event)
    instance: Any = None
    running: bool = False
    error: BaseException | None = None

    async def live(self, dependencies: Mapping[str, Any]) -> None:
        try:
            async with self.spec.factory(dependencies) as self.instance:
                self.running = True
                self.ready.set()
                await self.end.wait()
        except BaseException as error:  # boundary: foreign code; whoever waits is told
            self.error = error
            if self.running:
                how = "closing" if self.end.is_set() else "running"
                log.exception(
                    "a service failed",
                    extra={"kv": {"service": self.spec.name, "while": how}},
                )
        finally:
            self.running, self.instance = False, None
            self.ready.set()


class Services:
    """The services of one runtime; `async with` starts and closes them."""

    def __init__(self, specs: Sequence[ServiceSpec]) -> None:
        """Take services in the order in which they start; `assemble` has found it."""
        self._specs = tuple(specs)
        self._started: dict[str, _Service] = {}

    async def __aenter__(self) -> Self:
        """Start all of them.

        Raises:
            ConfigError: one could not start; those before it are closed again.
        """
        _mine.set(self)
        _open.append(self)
        try:
            for spec in self._specs:
                await self._start(spec)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all of them, whatever happens to one or to the caller."""
        await self._close()

    def get(self, name: str) -> Any:
        """Return a running service.

        Raises:
            ServiceMissing: it does not run, or nobody registered it.
        """
        service = self._started.get(name)
        if service is not None and service.running:
            return service.instance
        if service is not None or any(spec.name == name for spec in self._specs):
            raise ServiceMissing(f"The service {name!r} does not run; the log says why.")
        known = ", ".join(spec.name for spec in self._specs) or "none"
        raise ServiceMissing(f"There is no service {name!r}. Registered are: {known}.")

    def only(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Return these services and no others, read-only.

        Raises:
            ServiceMissing: one of them does not run.
        """
        return MappingProxyType({name: self.get(name) for name in names})

    # Helpers ----------------------------------------------------------------------------

    async def _start(self, spec: ServiceSpec) -> None:
        service = _Service(spec)
        dependencies = self.only(spec.requires)
        self._started[spec.name] = service
        service.task = asyncio.create_task(service.live(dependencies), name=f"service {spec.name}")
        await _to_the_end(service.task, service.ready)
        if not service.running:
            kv = {"service": spec.name}
            log.error("a service cannot start", exc_info=service.error, extra={"kv": kv})
            raise ConfigError([_cannot_start(spec, service.error)]) from service.error
        log.info("service started", extra={"kv": {"service": spec.name}})

    async def _close(self) -> None:
        await _to_the_end(asyncio.create_task(self._close_all(), name="services close"))

    async def _close_all(self) -> None:
        for service in reversed(self._started.values()):
            await _close_one(service)
        self._started.clear()
        if self in _open:
            _open.remove(self)


async def _close_one(service: _Service) -> None:
    task = cast("asyncio.Task[None]", service.task)
    service.end.set()
    for _ in range(2):
        await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if task.done():
            return
        task.cancel()
    log.error("a service does not close", extra={"kv": {"service": service.spec.name}})


async def _to_the_end(task: asyncio.Task[None], ready: asyncio.Event | None = None) -> None:
    """Wait until a task is done or says it is ready, even when the waiter is cancelled.

    The first cancellation is kept until then. A second one is passed on to the task.
    """
    cancelled: asyncio.CancelledError | None = None
    while not (task.done() or (ready is not None and ready.is_set())):
        waiters = {task} if ready is None else {task, asyncio.create_task(ready.wait())}
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            if cancelled is not None:
                task.cancel()
            cancelled = error
        finally:
            for waiter in waiters - {task}:
                waiter.cancel()
    if cancelled is not None:
        raise cancelled
    if ready is None:
        task.result()


def _cannot_start(spec: ServiceSpec, error: BaseException | None) -> Fault:
    if isinstance(error, AttributeError | TypeError) and "context manager" in str(error):
        what = f"The factory of the service {spec.name!r} gives no asynchronous context manager."
        return Fault(spec.where, what, "Put @asynccontextmanager on it.")
    told = mask(f"{type(error).__name__}: {error}" if error else "it ended at once")
    what = f"The service {spec.name!r} cannot start: {told}."
    cure = "Correct its settings, or what it connects to; the log has the whole stack."
    return Fault(spec.where, what, cure)
