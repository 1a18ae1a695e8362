"""kill -9 in the middle of a batch, and scripts beside servers: nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.types import RunStatus
from runtime import admit, build_execution, execute, execute_many
from runtime.commands import ChatCommand
from tests.batch.conftest import Desk
from tests.support.app import served_product
from tests.support.postgres import execute as query
from tests.support.process import COMMAND, ROOT, command, environment
from tests.support.scripted_turns import Gate, call, hold, say, slow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("BATCH-02", "BATCH-04"), pytest.mark.timeout(120)]


def inputs(desk: Desk, count: int) -> Path:
    path = desk.folder / "inputs.jsonl"
    items = [{"key": f"k{at}", "message": f"item {at}"} for at in range(count)]
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def started(desk: Desk, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "batch", *arguments],
        cwd=ROOT,
        env=environment(**desk.variables(**more)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("at", [0, 1, 9, 17])
def test_a_batch_that_is_killed_goes_on_with_every_item_done_once(desk: Desk, at: int):
    path, out = inputs(desk, 20), desk.folder / "out.jsonl"
    desk.scripted.on("item", lambda seen: slow(say(f"answer to {seen.last_user}"), 0.15))
    arguments = (str(path), "--out", str(out), "--concurrency", "5")
    first = started(desk, *arguments)
    try:
        wait_until(
            lambda: bool(desk.scripted.requests) and (at == 0 or len(lines(out)) >= at),
            f"{at} items are done",
        )
    finally:
        first.kill()
        first.communicate()
    second = command("batch", *arguments, settings=desk.variables())
    assert second.returncode == 0, second.stderr
    found = lines(out)
    assert Counter(line["key"] for line in found) == Counter(f"k{at}" for at in range(20))
    assert all(line["output"] == f"answer to item {line['key'][1:]}" for line in found)
    states = query(desk.url, "SELECT status, count(*) FROM runs GROUP BY status")
    assert states == [("success", 20)]
    asked = Counter(seen.last_user for seen in desk.scripted.requests)
    # What was in hand at the kill may have been asked again, and nothing else.
    assert sum(asked.values()) <= 20 + 5


@pytest.mark.req("P1", "P2")
def test_two_hundred_items_survive_a_kill_in_the_middle(desk: Desk):
    count, places = 200, 20
    path, out = inputs(desk, count), desk.folder / "out.jsonl"
    desk.scripted.on(
        "item",
        lambda seen: call("calculate", {"expression": "1+1"}, id="c1"),
        lambda seen: slow(say(f"answer to {seen.last_user}"), 0.05),
    )
    arguments = (str(path), "--out", str(out), "--concurrency", str(places), "--quiet")
    first = started(desk, *arguments)
    try:
        wait_until(lambda: out.exists() and len(lines(out)) >= count // 2, "half of it is done", 40)
    finally:
        first.kill()
        first.communicate()
    before = query(desk.url, "SELECT count(*) FROM runs WHERE status = 'success'")[0][0]
    assert count // 2 <= before < count
    second = command("batch", *arguments, settings=desk.variables())
    assert second.returncode == 0, second.stderr
    found = lines(out)
    assert Counter(line["key"] for line in found) == Counter(f"k{at}" for at in range(count))
    assert query(desk.url, "SELECT status, count(*) FROM runs GROUP BY status") == [
        ("success", count)
    ]
    results = query(desk.url, "SELECT count(*), count(DISTINCT run_id) FROM tool_results")
    assert results == [(count, count)]
    # Two turns an item; only what was in hand at the kill may have been asked again.
    assert len(desk.scripted.requests) <= 2 * count + places


@pytest.mark.req("D03")
def test_a_tool_that_may_have_written_when_it_was_killed_is_not_carried_out_again(desk: Desk):
    path, out = inputs(desk, 1), desk.folder / "out.jsonl"
    folder = desk.folder / "more" / "slow"
    folder.mkdir(parents=True)
    (folder / "extension.py").write_text(SLOW)
    more = {"GW_EXTENSIONS_PATH": str(desk.folder / "more"), "NOTES": str(desk.folder / "notes")}
    desk.scripted.on("item", call("post_slowly"), say("done"))
    arguments = (str(path), "--out", str(out), "--agent", "poster")
    first = started(desk, *arguments, **more)
    try:
        wait_until((desk.folder / "notes").is_file, "the tool was called")
    finally:
        first.kill()
        first.communicate()
    second = command("batch", *arguments, settings=desk.variables(**more))
    assert second.returncode == 5
    (line,) = lines(out)
    assert line["status"] == "waiting_input"
    (asked,) = line["interrupts"][0]["tool_approval"]["calls"]
    assert asked["tool"] == "post_slowly"
    assert "It may have happened" in asked["reason"]
    assert (desk.folder / "notes").read_text() == "posted\n"


SLOW = """
import asyncio
from pathlib import Path
from extensions import define_tool, get_setting

@define_tool(label="Post", side_effect="external")
async def post_slowly() -> str:
    \"\"\"Post something.\"\"\"
    with Path(get_setting("NOTES")).open("a") as file:
        file.write("posted\\n")
    await asyncio.sleep(60)
    return "posted"

def setup(registry):
    registry.register_agent("poster", "Posts.", "Post.", tools=[post_slowly])
"""


# Beside a server --------------------------------------------------------------------------


def server_beside(desk: Desk) -> Any:
    kept = ("openai_base_url", "openai_api_key", "openai_model", "openai_max_retries",
            "hitl_tools", "heartbeat_seconds", "owner_dead_seconds")  # fmt: skip
    settings = desk.settings()
    return served_product(desk.url, desk.folder, **{name: getattr(settings, name) for name in kept})


async def test_a_server_takes_no_run_of_a_script_and_a_script_none_of_a_server(desk: Desk):
    gate = Gate()
    desk.scripted.on("of the server", hold(say("the server's"), gate, after=1))
    async with server_beside(desk) as served, desk.environment():
        runtime = served.product.environment
        who = await served.principal("ann")
        submitted = await runtime.runs.submit(who, ChatCommand("of the server"))
        report = await execute_many(
            [f"item {at}" for at in range(12)], user_name="ann", progress=False
        )
        assert report.ok
        owners = {row[0] for row in query(desk.url, "SELECT id FROM owners WHERE kind = 'script'")}
        assert len(owners) == 1
        attempts = {
            row[0] for row in query(desk.url, "SELECT attempt FROM runs WHERE kind = 'batch'")
        }
        assert attempts == {1}
        assert (await desk.run(submitted.run_id)).owner_id == runtime.claims.owner_id
        gate.open()
        await desk.until(lambda: _is(desk, submitted.run_id, RunStatus.SUCCESS))


async def test_runs_of_a_script_take_no_seat_of_their_user_at_the_server(desk: Desk):
    gate = Gate()
    desk.scripted.on("held", hold(say("late"), gate))
    async with server_beside(desk) as served, desk.environment():
        working = asyncio.create_task(
            execute_many([f"held {at}" for at in range(12)], user_name="ann", progress=False)
        )
        await desk.until(lambda: _count(desk, "FROM runs WHERE status = 'running'", 12))
        who = await served.principal("ann")
        chat = await served.product.environment.runs.submit(who, ChatCommand("hello"))
        await desk.until(lambda: _is(desk, chat.run_id, RunStatus.SUCCESS))
        gate.open()
        assert (await working).ok


async def test_a_server_goes_on_with_the_run_of_a_script_that_was_killed(desk: Desk):
    gate = Gate()
    desk.scripted.on_each("item", hold(say("cut"), gate, after=1), say("by the server"))
    path = inputs(desk, 1)
    process = await asyncio.to_thread(
        started, desk, str(path), "--out", str(desk.folder / "o.jsonl"), "--user", "ann"
    )
    await asyncio.to_thread(gate.reached.wait, 40)
    process.kill()
    await asyncio.to_thread(process.communicate)
    async with server_beside(desk):
        await desk.until(lambda: _count(desk, "FROM runs WHERE status = 'success'", 1), 30)
        async with desk.environment():
            report = await execute_many(
                [{"key": "k0", "message": "item 0"}], user_name="ann", progress=False
            )
    assert [result.output for result in report.results] == ["by the server"]
    assert report.skipped == 1


async def test_a_cancel_at_the_server_reaches_the_script(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never said to the end"), gate, after=2))
    async with server_beside(desk) as served, desk.environment():
        admitted = await admit(user_name="ann", message="long")
        waiting = asyncio.create_task(build_execution(admitted).run())
        await asyncio.to_thread(gate.reached.wait, 20)
        who = await served.principal("ann")
        await served.product.environment.runs.cancel(who, admitted.run_id)
        async with asyncio.timeout(10):
            assert (await waiting).status == "cancelled"


@pytest.mark.req("D04")
async def test_a_script_that_stood_still_too_long_gets_the_result_of_whoever_took_over(desk: Desk):
    gate = Gate()
    desk.scripted.on_each("long", hold(say("stale"), gate, after=1), say("fresh"))
    silent = {"heartbeat_seconds": 60.0}
    async with server_beside(desk), desk.environment(changed=silent) as here:
        waiting = asyncio.create_task(execute(user_name="ann", message="long"))
        await asyncio.to_thread(gate.reached.wait, 20)
        # As if its loop had stood still: its life signs are as old as that.
        mine = here.opened.runtime.claims.owner_id
        query(desk.url, "DELETE FROM owners WHERE id = %s", (mine,))
        async with asyncio.timeout(30):
            result = await waiting
    assert (result.status, result.output) == ("success", "fresh")


def test_the_script_of_the_guide_runs_on_a_fresh_folder_and_beside_a_server(tmp_path: Path):
    # Both at once cost a cluster; see tests/acceptance for the server's own start.
    from tests.acceptance.conftest import new_data_dir, remove
    from tests.support.process import server

    folder = new_data_dir()
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    try:
        alone = _run(script, folder)
        with server(folder, GW_TITLES="off"):
            beside = _run(script, folder)
    finally:
        remove(folder)
    for ended in (alone, beside):
        assert ended.returncode == 0, ended.stderr
        assert "391" in ended.stdout
        assert ended.stderr == ""


SCRIPT = """
import asyncio
from runtime import RuntimeEnvironment, execute

async def main():
    async with RuntimeEnvironment():
        result = await execute(user_name='report', message='What is 17 * 23?', kind='batch',
                               graph_config={'recursion_limit': 30})
        print(result.output)

asyncio.run(main())
"""


def _run(script: Path, data_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=script.parent,
        env=environment(GW_DATA_DIR=str(data_dir), PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )


async def _is(desk: Desk, run_id: str, status: RunStatus) -> bool:
    return (await desk.run(run_id)).status is status


async def _count(desk: Desk, what: str, count: int) -> bool:
    return await asyncio.to_thread(desk.count, what) == count
