"""Services start in the order of their needs and close the other way round, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

import runtime.services
from core.errors import ConfigError, ServiceMissing
from core.registry import Registry, ServiceSpec
from runtime.services import Services, collecting, get_service
from runtime.wiring import services_of

pytestmark = pytest.mark.req("EXT-06")


class Log:
    """Services that write down what happens to them."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.given: dict[str, Mapping[str, Any]] = {}
        self.registry = Registry(where="x/extension.py", extension="x")

    def add(self, name: str, *requires: str, before: Callable[[], Any] | None = None) -> None:
        """Register a service; `before` is awaited while it starts."""

        @asynccontextmanager
        async def factory(services: Mapping[str, Any]) -> AsyncIterator[str]:
            self.given[name] = services
            self.said.append(f"+{name}")
            if before is not None:
                await before()
            try:
                yield name.upper()
            finally:
                self.said.append(f"-{name}")

        self.registry.register_service(name, factory, list(requires))

    def services(self) -> Services:
        faults: list[Any] = []
        specs = services_of(self.registry.services, faults)
        assert faults == []
        return Services(specs)


async def test_services_start_after_what_they_require_and_close_the_other_way_round():
    log = Log()
    log.add("a", "z", "m")
    log.add("m", "z")
    log.add("z")
    log.add("b")
    async with log.services() as services:
        assert log.said == ["+b", "+z", "+m", "+a"]
        assert dict(log.given["a"]) == {"z": "Z", "m": "M"}
        assert dict(log.given["z"]) == {}
        assert get_service("m") == "M"
        assert dict(services.only(["b"])) == {"b": "B"}
        with pytest.raises(TypeError):
            log.given["a"]["b"] = "B"  # type: ignore[index]
        log.said.clear()
    assert log.said == ["-a", "-m", "-z", "-b"]


async def test_those_that_run_are_closed_when_a_later_one_fails():
    async def fail() -> None:
        raise OSError("no route to postgresql://user:hunter2hunter2@db/x")

    log = Log()
    log.add("a")
    log.add("b", "a")
    log.add("c", "b", before=fail)
    log.add("d", "c")
    with pytest.raises(ConfigError) as caught:
        await log.services().__aenter__()
    assert log.said == ["+a", "+b", "+c", "-b", "-a"]
    [fault] = caught.value.faults
    assert fault.where == "x/extension.py"
    assert "'c' cannot start: OSError" in fault.what
    assert "hunter2" not in fault.what
    assert fault.cure


async def test_a_start_that_is_cancelled_waits_for_the_service_under_way_and_closes_it():
    log, began, go_on = Log(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        began.set()
        await go_on.wait()
        log.said.append("b is whole")

    log.add("a")
    log.add("b", "a", before=slow)
    log.add("c", "b")
    start = asyncio.create_task(log.services().__aenter__())
    async with asyncio.timeout(5):
        await began.wait()
        start.cancel()
        done, _ = await asyncio.wait({start}, timeout=0.05)
        assert not done
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await start
    assert log.said == ["+a", "+b", "b is whole", "-b", "-a"]


async def test_a_second_cancellation_ends_a_start_that_hangs():
    log, began = Log(), asyncio.Event()

    async def hang() -> None:
        began.set()
        await asyncio.Event().wait()

    log.add("a")
    log.add("b", "a", before=hang)
    start = asyncio.create_task(log.services().__aenter__())
    async with asyncio.timeout(5):
        await began.wait()
        start.cancel()
        await asyncio.wait({start}, timeout=0.01)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
    assert log.said == ["+a", "+b", "-a"]


async def test_closing_goes_on_when_one_fails_to_close_or_the_closer_is_cancelled(caplog):
    @asynccontextmanager
    async def bad(services: Mapping[str, Any]) -> AsyncIterator[None]:
        yield
        closing.set()
        await go_on.wait()
        raise RuntimeError("cannot close")

    closing, go_on = asyncio.Event(), asyncio.Event()
    log = Log()
    log.add("a")
    log.registry.register_service("b", bad, ["a"])
    services = await log.services().__aenter__()
    close = asyncio.create_task(services.__aexit__(None, None, None))
    async with asyncio.timeout(5):
        await closing.wait()
        close.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await close
    assert log.said == ["+a", "-a"]
    assert "a service failed" in caplog.text


async def test_a_service_is_entered_and_left_in_the_same_task():
    tasks: list[Any] = []

    @asynccontextmanager
    async def factory(services: Mapping[str, Any]) -> AsyncIterator[None]:
        tasks.append(asyncio.current_task())
        yield
        tasks.append(asyncio.current_task())

    async with Services([ServiceSpec("a", factory, (), "x", "x")]):
        pass
    assert tasks[0] is tasks[1] is not None


async def test_a_factory_that_gives_something_else_is_a_fault_with_its_cure():
    spec = ServiceSpec("a", lambda services: object(), (), "x", "x")  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigError, match="asynccontextmanager"):
        await Services([spec]).__aenter__()


async def test_asking_too_early_too_late_or_for_what_is_not_there_says_so(monkeypatch):
    # Other tests of this process may keep a whole server running.
    monkeypatch.setattr(runtime.services, "_open", [])
    with pytest.raises(ServiceMissing, match="while no services run"):
        get_service("a")
    log = Log()
    log.add("a")
    async with log.services():
        with collecting(), pytest.raises(ServiceMissing, match="while extensions are loaded"):
            get_service("a")
        with pytest.raises(ServiceMissing, match="Registered are: a"):
            get_service("b")
        # A synchronous tool runs in a thread, and finds it there too.
        assert await asyncio.to_thread(get_service, "a") == "A"
    with pytest.raises(ServiceMissing, match="while no services run"):
        get_service("a")


@pytest.mark.req("EXT-05")
def test_everything_wrong_with_services_is_told_at_once():
    @asynccontextmanager
    async def good(services: Mapping[str, Any]) -> AsyncIterator[None]:
        yield

    async def bare(services: Mapping[str, Any]) -> AsyncIterator[None]:
        yield

    registry = Registry(where="x/extension.py")
    registry.register_service("one", good, ["two"])
    registry.register_service("two", good, ["one"])
    registry.register_service("two", good)
    registry.register_service("bad name", good)
    registry.register_service("three", good, ["oen"])
    registry.register_service("four", bare)
    registry.register_service("five", lambda: None)  # type: ignore[arg-type,misc]
    registry.register_service("six", 6)  # type: ignore[arg-type]
    registry.register_service("seven", good, "one")
    faults: list[Any] = []
    services_of(registry.services, faults)
    told = "\n".join(f"{fault.where} {fault.what} {fault.cure}" for fault in faults)
    assert len(faults) == 8, told
    assert all("x/extension.py" in fault.where and fault.cure for fault in faults)
    for part in (
        "in a circle: one → two → one",
        "of that name already",
        "'bad name' This name is not allowed",
        "names 'oen', which is no registered service. Did you mean 'one'?",
        "'four' Its factory gives no asynchronous context manager. Put @asynccontextmanager",
        "does not take exactly one argument",
        "cannot be called",
        "requires is str, not a list",
    ):
        assert part in told
