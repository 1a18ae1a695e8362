"""`execute_many`: every item once, whatever was done before and by whom (BATCH-04)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.errors import Invalid
from core.types import RunStatus
from runtime import BatchItem, ResumeDecision, execute, execute_many, resume_value
from tests.batch.conftest import Desk
from tests.support.postgres import execute as query
from tests.support.scripted_turns import Gate, call, error, hold, say

pytestmark = pytest.mark.req("BATCH-04")

WRITE = call("write_file", {"path": "/workspace/a.txt", "content": "one"})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def many(items: Any, **options: Any) -> Any:
    async with asyncio.timeout(40):
        return await execute_many(items, progress=False, **options)


async def test_results_come_in_the_order_of_the_items_and_lines_for_each_of_them(desk: Desk):
    out = desk.folder / "new" / "out.jsonl"
    items: list[Any] = [
        "one",
        {"message": "zwei 二", "key": 2},
        BatchItem("three", key="c", agent="assistant"),
    ]
    async with desk.environment():
        report = await many(items, concurrency=2, out=out)
    assert [result.output for result in report.results] == [
        "echo: one",
        "echo: zwei 二",
        "echo: three",
    ]
    assert report.keys[1:] == ["2", "c"]
    assert report.ok
    assert report.skipped == 0
    written = {line["key"]: line for line in lines(out)}
    assert list(written) != []
    assert {key: line["output"] for key, line in written.items()} == dict(
        zip(report.keys, (result.output for result in report.results), strict=True)
    )
    assert next(iter(written["c"])) == "key"


async def test_a_second_start_does_only_what_is_new_and_reads_back_the_rest(desk: Desk):
    out = desk.folder / "out.jsonl"
    async with desk.environment():
        await many(["a", "b"], out=out)
    async with desk.environment():
        report = await many(["a", "b", "c"], out=out)
        without_file = await many(["a", "b", "c"])
    assert [result.output for result in report.results] == ["echo: a", "echo: b", "echo: c"]
    assert (report.skipped, without_file.skipped) == (2, 3)
    assert without_file.results == report.results
    assert len(lines(out)) == 3
    assert [desk.asked(message) for message in "abc"] == [1, 1, 1]


async def test_lines_that_a_kill_kept_from_the_file_are_added_by_the_next_start(desk: Desk):
    out = desk.folder / "out.jsonl"
    async with desk.environment():
        await many(["a", "b"], out=out)
        first, second = out.read_bytes().splitlines(keepends=True)
        out.write_bytes(first + second[:-20])
        await many(["a", "b"], out=out)
    assert sorted(line["output"] for line in lines(out)) == ["echo: a", "echo: b"]
    assert [desk.asked(message) for message in "ab"] == [1, 1]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "nothing to do"),
        (["a", "a"], r"item 3 is the same as item 2\. Give them keys"),
        (
            [{"message": "a", "key": "k"}, {"message": "b", "key": "k"}],
            "item 3 has the key 'k' of item 2",
        ),
        (
            [{"message": "a", "key": 1}, {"message": "b", "key": "1"}],
            "item 3 has the key '1' of item 2",
        ),
        ([{"mesage": "a"}], "no field 'mesage'. Did you mean 'message'"),
        ([{"message": 3}], "message must be a text"),
        ([{"message": " "}], "missing or empty"),
        ([{"message": "x" * 400_001}], "more than 400000"),
        ([{"message": "a", "key": " "}], "a key has 1 to 200"),
        ([{"message": "a", "session_id": "x"}], "id of a session"),
        ([{"message": "a", "mode": "x"}], "plan or full"),
        ([{"message": "a", "agent": "assistent"}], "Did you mean 'assistant'"),
        ([{"message": "a", "model": "other"}], "the model 'other'"),
        (
            [{"message": "a", "agent": "nobody"}],
            "the item with the message 'a' asks for the agent 'nobody'.*Known agents: .*assistant",
        ),
        ([{"message": "a", "key": "k", "agent": "nobody"}], "the item 'k' asks for"),
        ([None], "neither a text nor an object"),
        ([["a"]], "Write each of the list as an item of its own"),
    ],
)
async def test_wrong_items_are_told_before_anything_begins(desk: Desk, items: Any, said: str):
    async with desk.environment(prewarm=False):
        with pytest.raises(Invalid, match=said):
            await many(["good", *items] if items else [])
    assert desk.count("FROM runs") == 0


@pytest.mark.parametrize("items", ["good", b"good", {"message": "good"}, 7, None])
async def test_what_is_no_list_of_items_is_told(desk: Desk, items: Any):
    async with desk.environment(prewarm=False):
        with pytest.raises(Invalid, match="not a list of items"):
            await many(items)
    assert desk.count("FROM runs") == 0


async def test_all_faults_are_told_together(desk: Desk):
    async with desk.environment(prewarm=False):
        with pytest.raises(Invalid) as told:
            await many(["", {"mesage": 1}, "good", "good"])
    assert [f"item {at}" in told.value.message for at in (1, 2, 3, 4)] == [True, True, True, True]


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"concurrency": 21}, Invalid, r"allows 1 to 20 .*RuntimeEnvironment\(concurrency="),
        ({"concurrency": "x"}, Invalid, "concurrency='x'"),
        ({"concurrency": True}, Invalid, "1 to 20"),
        ({"user_name": 7}, Invalid, "user_name must be a text"),
        ({"agent": ["x"]}, Invalid, "agent must be a text"),
        ({"name": 7}, Invalid, "name must be a text"),
        ({"out": 7}, Invalid, "out must be the path"),
        ({"retry_failed": "no"}, Invalid, "retry_failed must be True or False"),
        ({"concurrency": 0}, Invalid, "1 to 20"),
        ({"graph_config": {"x": 1}}, Invalid, "not understood: x"),
        ({"user_name": ""}, Invalid, "user_name"),
        ({"retry_faild": True}, TypeError, "'retry_faild'. Did you mean 'retry_failed'"),
    ],
)
async def test_wrong_options_are_told_before_anything_begins(
    desk: Desk, options: dict[str, Any], kind: type[Exception], said: str
):
    async with desk.environment(prewarm=False):
        with pytest.raises(kind, match=said):
            await many(["a"], **options)
    assert desk.count("FROM runs") == 0


async def test_one_item_that_fails_stops_no_other_and_is_done_again_only_on_request(desk: Desk):
    out = desk.folder / "out.jsonl"
    desk.scripted.on_each("bad", error(401), say("better"))
    async with desk.environment():
        first = await many(["bad", "good"], out=out)
        assert [result.status for result in first.results] == ["failed", "success"]
        again = await many(["bad", "good"], out=out)
        assert (again.results, again.skipped) == (first.results, 2)
        mended = await many(["bad", "good"], out=out, retry_failed=True)
    assert [result.output for result in mended.results] == ["better", "echo: good"]
    assert [line["status"] for line in lines(out) if line["key"] == first.keys[0]] == [
        "failed",
        "success",
    ]
    assert (desk.asked("bad"), desk.asked("good")) == (2, 1)


async def _is_done(desk: Desk) -> bool:
    return desk.count("FROM runs WHERE status = 'success'") == 1


async def test_an_item_that_was_cancelled_is_done_by_the_next_start(desk: Desk):
    gate = Gate()
    desk.scripted.on_each("long", hold(say("cut here"), gate, after=2), say("whole"))
    async with desk.environment():
        working = asyncio.create_task(many(["long", "short"], out=desk.folder / "out.jsonl"))
        await asyncio.to_thread(gate.reached.wait, 20)
        await desk.until(lambda: _is_done(desk))
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert desk.count("FROM runs WHERE status IN ('queued', 'running')") == 0
        report = await many(["long", "short"], out=desk.folder / "out.jsonl")
    assert [result.output for result in report.results] == ["whole", "echo: short"]
    assert desk.asked("short") == 1
    assert len(lines(desk.folder / "out.jsonl")) == 2


async def test_an_item_that_asks_waits_and_is_read_once_it_was_answered(desk: Desk):
    out = desk.folder / "out.jsonl"
    desk.scripted.on("write", WRITE, say("written"))
    async with desk.environment():
        first = await many(["write", "other"], out=out, user_name="ann")
        waits = first.results[0]
        assert (waits.status, first.results[1].status) == ("waiting_input", "success")
        assert (await many(["write", "other"], out=out, user_name="ann")).skipped == 2
        await execute(
            user_name="ann",
            session_id=waits.session_id,
            interrupt_token=waits.interrupts[0]["interrupt_token"],
            resume=resume_value(ResumeDecision.approve()),
        )
        last = await many(["write", "other"], out=out, user_name="ann")
    assert last.results[0].output == "written"
    statuses = [line["status"] for line in lines(out) if line["key"] == first.keys[0]]
    assert statuses == ["waiting_input", "success"]


async def test_a_key_that_stood_for_another_message_is_refused_unless_the_batch_has_another_name(
    desk: Desk,
):
    async with desk.environment():
        await many([{"message": "old", "key": "k"}])
        with pytest.raises(Invalid, match=r"key 'k' was used for another message"):
            await many([{"message": "new", "key": "k"}])
        report = await many([{"message": "new", "key": "k"}], name="second")
    assert report.results[0].output == "echo: new"
    assert desk.asked("new") == 1


async def test_items_of_one_session_follow_each_other_in_their_order(desk: Desk):
    async with desk.environment():
        session = (await execute(user_name="local", message="begin")).session_id
        items = [{"message": f"step {at}", "session_id": session} for at in range(4)]
        report = await many([*items, "beside"])
    assert report.ok
    last = next(seen for seen in desk.scripted.requests if seen.last_user == "step 3")
    spoken = [message["content"] for message in last.messages if message["role"] == "user"]
    assert spoken == ["begin", "step 0", "step 1", "step 2", "step 3"]


async def test_an_item_that_is_not_let_in_is_told_and_tried_again_by_the_next_start(desk: Desk):
    desk.scripted.on("write", WRITE, say("written"))
    async with desk.environment():
        waits = await execute(user_name="ann", message="write")
        items = [{"message": "on", "session_id": waits.session_id}]
        first = await many(items, user_name="ann")
        assert (first.results[0].status, first.results[0].error_code) == ("refused", "session_busy")
        await execute(
            user_name="ann",
            session_id=waits.session_id,
            interrupt_token=waits.interrupts[0]["interrupt_token"],
            resume=resume_value(ResumeDecision.reject()),
        )
        assert (await many(items, user_name="ann")).ok


async def test_an_item_whose_session_was_deleted_is_not_silently_done_again(desk: Desk):
    async with desk.environment() as environment:
        first = await many(["a"])
        opened = environment.opened
        who = await opened.identity.local_principal()
        await opened.runtime.sessions.delete(who, first.results[0].session_id)
        again = await many(["a"])
    assert (again.results[0].status, again.results[0].error_code) == ("refused", "not_found")
    assert "another key" in str(again.results[0].error)
    assert desk.asked("a") == 1


@pytest.mark.req("L25")
async def test_nul_and_lone_surrogates_do_no_harm_and_give_the_same_keys_again(desk: Desk):
    out = desk.folder / "out.jsonl"
    items = ["a\x00b", "c\ud83dd", {"message": "\u2028line\u2029", "key": "k\x00\ud83d"}]
    async with desk.environment():
        first = await many(items, out=out)
        again = await many(items, out=out)
    assert first.ok
    assert (again.skipped, again.results) == (3, first.results)
    assert len(lines(out)) == 3


async def test_two_batches_at_once_with_the_same_items_do_each_once_and_both_have_all(desk: Desk):
    items = [f"item {at}" for at in range(12)]
    files = [desk.folder / "one.jsonl", desk.folder / "two.jsonl"]
    async with desk.environment():
        reports = await asyncio.gather(*(many(items, out=out, concurrency=6) for out in files))
    assert reports[0].results == reports[1].results
    assert [desk.asked(item) for item in items] == [1] * 12
    assert [len(lines(out)) for out in files] == [12, 12]


@pytest.mark.parametrize("state", ["queued", "abandoned"])
async def test_a_run_that_is_there_already_is_taken_up_where_nobody_carries_it_out(
    desk: Desk, state: str
):
    async with desk.environment():
        first = await many(["a"])
    # As a kill leaves it, before or after a server looked after it.
    owner = "'dead'" if state == "abandoned" else "NULL"
    status = "running" if state == "abandoned" else "queued"
    query(desk.url, "DELETE FROM messages WHERE role = 'assistant'")
    query(desk.url, "DELETE FROM run_events WHERE seq > 1")
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
        query(desk.url, f"DELETE FROM {table}")
    change = f"status = '{status}', owner_id = {owner}, finished_at = NULL, last_seq = 1"
    query(desk.url, f"UPDATE runs SET {change}")
    async with desk.environment(recover_interrupted=False):
        again = await many(["a"])
    assert (again.results[0].run_id, again.results[0].output) == (
        first.results[0].run_id,
        "echo: a",
    )
    assert (await desk.run(again.results[0].run_id)).status is RunStatus.SUCCESS


@pytest.mark.req("D01")
async def test_a_database_that_is_away_for_a_while_only_delays(desk: Desk):
    items = [f"item {at}" for at in range(30)]
    name = query(desk.url, "SELECT current_database()")[0][0]
    server = desk.url.replace(f"/{name}?", "/postgres?")
    gate = Gate()
    desk.scripted.on("item 7", hold(say("late"), gate))
    async with desk.environment():
        working = asyncio.create_task(many(items, concurrency=4))
        await asyncio.to_thread(gate.reached.wait, 20)
        query(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        query(
            server,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            (name,),
        )
        gate.open()
        await SystemClock().sleep(1.5)
        query(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        report = await working
    assert report.ok
    assert desk.count("FROM runs") == 30
