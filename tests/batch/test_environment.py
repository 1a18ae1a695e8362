"""`RuntimeEnvironment`: opened whole or not at all, left clean, entered again (BATCH-02)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from core.clock import SystemClock
from core.errors import ConfigError, Unavailable, WrongUse
from core.types import RunStatus
from runtime import RuntimeEnvironment, admit, execute
from tests.batch.conftest import Desk
from tests.support.extension_folders import add
from tests.support.postgres import execute as query
from tests.support.scripted_turns import Gate, hold, say

pytestmark = pytest.mark.req("BATCH-02")

SERVICES = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

NOTES = Path(__file__).parent / "notes"

def note(text):
    with NOTES.open("a") as file:
        file.write(text + "\\n")

@asynccontextmanager
async def first(services):
    note("first opened")
    try:
        yield 1
    finally:
        note("first closed")

@asynccontextmanager
async def second(services):
    note("second begins")
    {second}
    yield 2

def setup(registry):
    registry.register_service("first", first)
    registry.register_service("second", second, requires=["first"])
"""


def with_services(desk: Desk, second: str) -> Any:
    """Add an extension whose second service does that, and return how to read its notes."""
    place = add(desk.folder / "more", "noted", SERVICES.replace("{second}", second))
    desk.more["extensions_path"] = (desk.folder / "more",)
    return lambda: (place / "notes").read_text().splitlines()


def test_schedules_are_refused_because_there_are_none():
    with pytest.raises(ConfigError, match="Schedules are not offered yet"):
        RuntimeEnvironment(scheduler=True)


@pytest.mark.parametrize("odd", ["many", True, 2.5])
def test_a_concurrency_that_is_no_number_is_refused(odd: Any):
    with pytest.raises(ConfigError, match=r"no number of runs.*whole number"):
        RuntimeEnvironment(concurrency=odd)


async def test_settings_that_are_none_are_refused():
    wrong: Any = 7
    with pytest.raises(ConfigError, match="settings is int, neither"):
        async with RuntimeEnvironment(settings=wrong):
            pass


def test_no_concurrency_is_refused():
    with pytest.raises(ConfigError, match="1 or more"):
        RuntimeEnvironment(concurrency=0)


async def test_a_field_that_is_no_setting_is_refused_before_anything_is_opened():
    with pytest.raises(ConfigError, match=r"data_dirr.*Did you mean 'data_dir'"):
        async with RuntimeEnvironment(settings={"data_dirr": "x"}):
            pass


async def test_a_second_one_is_refused_and_the_first_goes_on(desk: Desk):
    async with desk.environment():
        with pytest.raises(WrongUse, match="entered in this process already"):
            async with desk.environment():
                pass
        assert (await execute(user_name="ann", message="one")).status == "success"


async def test_the_same_one_can_be_entered_again_after_leaving(desk: Desk):
    environment = desk.environment(billing_retry=False)
    for message in ("one", "two"):
        async with environment:
            assert (await execute(user_name="ann", message=message)).status == "success"
        with pytest.raises(WrongUse):
            await execute(user_name="ann", message=message)
    assert desk.count("FROM owners") == 0


async def test_a_service_that_cannot_start_closes_what_was_opened(desk: Desk):
    notes = with_services(desk, "raise ValueError('no such host')")
    with pytest.raises(ConfigError, match="second"):
        async with desk.environment():
            pass
    assert notes() == ["first opened", "second begins", "first closed"]
    assert desk.count("FROM owners") == 0
    del desk.more["extensions_path"]
    async with desk.environment():
        assert (await execute(user_name="ann", message="one")).status == "success"


async def test_cancelling_a_start_closes_what_was_opened(desk: Desk):
    notes = with_services(desk, "await asyncio.Event().wait()")

    async def start() -> None:
        async with desk.environment():
            pass

    starting = asyncio.create_task(start())
    await desk.until(
        lambda: _true((desk.folder / "more/noted/notes").is_file() and len(notes()) == 2)
    )
    starting.cancel()
    # The service under way may come to its own end; who is in a hurry says so twice.
    await SystemClock().sleep(0.05)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert notes() == ["first opened", "second begins", "first closed"]
    del desk.more["extensions_path"]
    async with desk.environment():
        pass


async def test_a_database_that_is_away_stops_the_start(desk: Desk):
    away = {"database_url": "postgresql://nobody@127.0.0.1:1/none?connect_timeout=2"}
    with pytest.raises(Unavailable):
        async with desk.environment(changed=away):
            pass
    async with desk.environment():
        pass


async def test_leaving_with_runs_under_way_cancels_them(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never said to the end"), gate, after=2))
    async with desk.environment():
        forgotten = asyncio.create_task(execute(user_name="ann", message="long"))
        await admit(user_name="ann", message="never used")
        await asyncio.to_thread(gate.reached.wait, 20)
    rows = query(desk.url, "SELECT status, owner_id FROM runs")
    assert rows == [("cancelled", None), ("cancelled", None)]
    assert (await asyncio.gather(forgotten, return_exceptions=True))[0] is not None


async def test_another_loop_is_told_where_the_environment_is(desk: Desk):
    found: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(execute(user_name="ann", message="one"))
        except WrongUse as error:
            found.append(error)

    async with desk.environment(prewarm=False):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join, 20)
    assert "another event loop" in str(found[0])


@pytest.mark.parametrize("asked", [True, False])
async def test_a_run_of_a_script_that_died_goes_on_here_only_where_that_is_wanted(
    desk: Desk, asked: bool
):
    desk.scripted.on("left", say("found again"))
    async with desk.environment():
        admitted = await admit(user_name="ann", message="left")
        # As the kill of a process leaves it: held by an owner that nobody knows.
        query(desk.url, "UPDATE runs SET owner_id = 'dead'")
    async with desk.environment(recover_interrupted=asked):
        await SystemClock().sleep(1)

        async def ended() -> bool:
            return (await desk.run(admitted.run_id)).status is RunStatus.SUCCESS

        if asked:
            await desk.until(ended)
        assert await ended() is asked
        assert desk.asked("left") == int(asked)


async def _true(value: bool) -> bool:
    return value
