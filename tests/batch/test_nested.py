"""Runs that a tool of another run begins: they end, however few may be under way (BATCH-01)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runtime import execute, execute_many
from tests.batch.conftest import Desk
from tests.support.extension_folders import add
from tests.support.scripted_turns import call, say

pytestmark = pytest.mark.req("BATCH-01")

ASKING = '''
from extensions import define_tool
from runtime import execute


@define_tool(group="asking")
async def ask_expert(text: str) -> str:
    """Ask an expert, in a session of its own.

    Args:
        text: the question.
    """
    result = await execute(user_name="expert", message=text)
    return f"{result.status}: {result.output}"


def setup(registry):
    registry.register_agent("asker", "Asks.", "You ask.", [ask_expert])
'''


@pytest.fixture
def asking(desk: Desk, tmp_path: Path) -> Desk:
    """A desk with an agent whose tool begins runs."""
    add(tmp_path / "ext", "asking", ASKING)
    desk.more["extensions_path"] = str(tmp_path / "ext")
    desk.scripted.on("go", call("ask_expert", {"text": "why?"}), say("Because."))
    desk.scripted.on("why?", say("It is so."))
    return desk


async def test_a_run_that_a_tool_begins_waits_for_no_seat_of_its_own(asking: Desk):
    async with asyncio.timeout(30), asking.environment(concurrency=1):
        result = await execute(user_name="ann", message="go", agent="asker")
    assert (result.status, result.output) == ("success", "Because.")
    assert "success: It is so." in str(asking.scripted.requests[-1].messages[-1])


async def test_items_that_all_begin_runs_do_not_wait_for_each_other(asking: Desk):
    items = [{"message": "go", "key": str(at)} for at in range(4)]
    for _ in items[1:]:
        asking.scripted.on("go", call("ask_expert", {"text": "why?"}), say("Because."))
    async with asyncio.timeout(60), asking.environment(concurrency=2):
        report = await execute_many(items, agent="asker", progress=False)
        # The seats are free again: neither more nor fewer than before.
        again = await execute_many(["one", "two", "three"], progress=False)
    assert report.ok, report.results
    assert again.ok, again.results
    assert asking.count("FROM runs WHERE status = 'success'") == 11
