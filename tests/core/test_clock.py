"""Time that tests move by hand behaves like time."""

import asyncio

from core.clock import FakeClock, SystemClock


async def test_sleepers_wake_in_the_order_of_their_time_and_see_it():
    clock = FakeClock()
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append((name, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 9), ("early", 1), ("also early", 1), ("never here", 20)):
            group.create_task(sleeper(name, seconds))
        await asyncio.wait_for(_settled(clock, 4), 5)
        await clock.advance(10)
        assert seen == [("early", 1), ("also early", 1), ("late", 9)]
        await clock.advance(10)
    assert seen[-1] == ("never here", 20)


async def test_sleeper_that_sleeps_again_wakes_in_the_same_advance():
    clock = FakeClock()
    start = clock.now()
    beats: list[float] = []

    async def beat() -> None:
        for _ in range(3):
            await clock.sleep(5)
            beats.append((clock.now() - start).total_seconds())

    task = asyncio.create_task(beat())
    await asyncio.wait_for(_settled(clock, 1), 5)
    await clock.advance(15)
    await asyncio.wait_for(task, 5)
    assert beats == [5, 10, 15]


async def test_cancelled_sleeper_does_not_hold_the_clock_up():
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await asyncio.wait_for(_settled(clock, 1), 5)
    task.cancel()
    await clock.advance(2)
    assert clock.monotonic() == 2


async def test_the_machines_time_has_a_zone_and_runs_forward():
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().utcoffset().total_seconds() == 0


async def _settled(clock: FakeClock, sleepers: int) -> None:
    """Let tasks run until that many of them sleep."""
    while len(clock._sleepers) < sleepers:
        await SystemClock().sleep(0)
