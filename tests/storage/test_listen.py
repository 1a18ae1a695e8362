"""Notifications: heard once committed, and a lost connection is made anew and told."""

from __future__ import annotations

import asyncio

import pytest

from storage.database import Database
from storage.listen import listen
from tests.storage.test_database import cut


@pytest.mark.req("EXEC-37")
async def test_notifications_arrive_after_the_commit_and_again_after_a_cut(database: Database):
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    back = asyncio.Event()
    listener = await listen(
        database.url, ["gw_events", "gw_control"], lambda *what: heard.put_nowait(what), back.set
    )
    try:
        async with database.work() as work:
            await work.notify("gw_events", "[]")
            await work.notify("other", "unheard")
            assert heard.empty()
        assert await asyncio.wait_for(heard.get(), 10) == ("gw_events", "[]")
        assert not back.is_set()
        await cut(database)
        await asyncio.wait_for(back.wait(), 10)
        async with database.work() as work:
            await work.notify("gw_control", "{}")
        assert await asyncio.wait_for(heard.get(), 10) == ("gw_control", "{}")
        assert heard.empty()
    finally:
        await listener.aclose()
    assert not listener.connected
