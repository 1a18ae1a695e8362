"""`execute`: a result for whatever happens in the run, an error for what is not let in (BATCH-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.clock import SystemClock
from core.errors import Forbidden, Invalid, NotFound, SessionBusy, StaleInterrupt, WrongUse
from core.events import Usage
from core.types import RunStatus
from runtime import ResumeDecision, Upload, execute, resume_value
from tests.batch.conftest import Desk
from tests.support.postgres import execute as query
from tests.support.scripted_turns import Gate, call, error, hold, say

pytestmark = pytest.mark.req("BATCH-01")

MADE: Any = Upload
WRITE = call("write_file", {"path": "/workspace/a.txt", "content": "one"})


async def test_a_result_has_the_answer_and_what_it_cost(desk: Desk):
    desk.scripted.on("report", say("All is well."))
    async with desk.environment():
        result = await execute(
            user_name="report", message="report", kind="batch", graph_config={"recursion_limit": 30}
        )
    assert (result.status, type(result.status)) == ("success", str)
    assert result.output == "All is well."
    assert (result.error, result.citations, result.interrupts) == (None, [], [])
    assert isinstance(result.usage, Usage)
    assert result.usage.input_tokens > 0
    run = await desk.run(result.run_id)
    assert (run.status, run.kind, run.user_name) == ("success", "batch", "report")
    assert run.session_id == result.session_id


async def test_without_a_session_there_is_a_new_one_each_time_and_with_one_it_goes_on(desk: Desk):
    async with desk.environment():
        one = await execute(user_name="ann", message="one")
        other = await execute(user_name="ann", message="other")
        again = await execute(user_name="ann", message="again", session_id=one.session_id)
    assert one.session_id != other.session_id
    assert again.session_id == one.session_id
    said = [message["content"] for message in desk.scripted.requests[-1].messages[1:]]
    assert said == ["one", "echo: one", "again"]


async def test_an_unknown_name_becomes_a_user_without_a_login_and_a_known_one_is_the_same(
    desk: Desk,
):
    async with desk.environment():
        first = await execute(user_name=" 报告 ", message="one")
        second = await execute(user_name="报告", message="two")
        await execute(user_name="local", message="three")
    users = {(await desk.run(result.run_id)).user_id for result in (first, second)}
    assert len(users) == 1
    assert desk.count("FROM users WHERE name = '报告'") == 1
    assert desk.count("FROM api_keys") == desk.count("FROM web_sessions") == 0
    roles = dict(
        query(desk.url, "SELECT u.name, m.role FROM users u JOIN memberships m ON m.user_id = u.id")
    )
    assert roles == {"报告": "member", "local": "owner"}


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "a\nb", "x" * 101, "\ud83d", 7])
async def test_what_cannot_be_a_name_is_refused(desk: Desk, name: Any):
    async with desk.environment(prewarm=False):
        with pytest.raises(Invalid, match="user_name"):
            await execute(user_name=name, message="hello")
    assert desk.count("FROM users") == 0


async def test_a_disabled_user_runs_nothing(desk: Desk):
    async with desk.environment():
        await execute(user_name="ann", message="one")
        query(desk.url, "UPDATE users SET disabled_at = now() WHERE name = 'ann'")
        with pytest.raises(Forbidden, match="disabled"):
            await execute(user_name="ann", message="two")


@pytest.mark.parametrize(
    ("asked", "kind", "said"),
    [
        ({"message": "  "}, Invalid, "empty"),
        ({"message": "x" * 400_001}, Invalid, "at most"),
        ({"message": b"bytes"}, Invalid, "message must be a text"),
        ({"message": "hi", "session_id": "nonsense"}, NotFound, "Nothing with this id"),
        ({"message": "hi", "agent": "nobody"}, NotFound, "nobody"),
        ({"message": "hi", "model": "none"}, Invalid, "none"),
        ({"message": "hi", "mode": "half"}, Invalid, "mode must be"),
        ({"message": "hi", "kind": "other"}, Invalid, "chat, schedule, batch"),
        ({"message": "hi", "files": ["a.txt"]}, Invalid, "Upload"),
        ({"message": "hi", "files": 7}, Invalid, "Upload"),
        ({"message": "hi", "files": [MADE("a.txt", "text")]}, Invalid, "and bytes"),
        ({"message": "hi", "files": [MADE(7, b"x")]}, Invalid, "a text"),
        ({"message": "hi", "agent": "\ud800"}, NotFound, "There is no agent named \ufffd"),
        ({"message": "hi", "graph_config": {"recursion_limits": 3}}, Invalid, "recursion_limits"),
        ({"message": "hi", "graph_config": {"recursion_limit": 0}}, Invalid, "whole number"),
        ({"message": "hi", "graph_config": {"recursion_limit": True}}, Invalid, "whole number"),
        ({"message": "hi", "graph_config": [30]}, Invalid, "a mapping"),
        ({"message": "hi", "mesage": "hi"}, TypeError, "'mesage'.*Did you mean 'message'"),
        ({}, TypeError, "message is missing"),
        ({"resume": {}}, TypeError, "session_id, interrupt_token"),
        (
            {"resume": {}, "session_id": "s", "interrupt_token": "t", "message": "hi"},
            Invalid,
            "Not with an answer: message",
        ),
    ],
)
async def test_what_is_not_let_in_raises_and_leaves_nothing(
    desk: Desk, asked: dict[str, Any], kind: type[Exception], said: str
):
    async with desk.environment(prewarm=False):
        with pytest.raises(kind, match=said):
            await execute(user_name="ann", **asked)
    assert desk.count("FROM runs") == desk.count("FROM sessions") == 0


async def test_what_goes_wrong_in_the_run_is_a_result(desk: Desk):
    desk.scripted.on("broken", error(401))
    async with desk.environment():
        result = await execute(user_name="ann", message="broken")
    assert (result.status, result.error_code) == ("failed", "provider_auth")
    assert result.error
    assert result.output == ""


async def test_the_recursion_limit_is_the_limit_of_steps_of_this_run_alone(desk: Desk):
    desk.scripted.on("loop", call("now"))
    desk.scripted.on("more", call("now"), call("calculate", {"expression": "1+1"}), say("done"))
    async with desk.environment():
        cut = await execute(user_name="ann", message="loop", graph_config={"recursion_limit": 2})
        free = await execute(user_name="ann", message="more", session_id=cut.session_id)
    assert (cut.status, cut.error_code) == ("failed", "step_limit")
    assert free.status == "success"


async def test_a_run_that_asks_returns_with_the_question_and_goes_on_with_the_answer(desk: Desk):
    desk.scripted.on("write", WRITE, say("written"))
    async with desk.environment():
        waits = await execute(user_name="ann", message="write")
        assert (waits.status, waits.error) == ("waiting_input", None)
        (asked,) = waits.interrupts
        assert asked["kind"] == "tool_approval"
        assert asked["tool_approval"]["calls"][0]["tool"] == "write_file"
        where = {"user_name": "ann", "session_id": waits.session_id}
        with pytest.raises(SessionBusy):
            await execute(message="meanwhile", **where)
        answer = {
            "interrupt_token": asked["interrupt_token"],
            "resume": resume_value(ResumeDecision.approve()),
        }
        done = await execute(**where, **answer)
        with pytest.raises(StaleInterrupt):
            await execute(**where, **answer)
    assert (done.status, done.output, done.run_id) == ("success", "written", waits.run_id)
    assert list(desk.folder.rglob("a.txt"))


async def test_files_come_with_the_message(desk: Desk):
    async with desk.environment():
        file = Upload("名单.txt", "安".encode())
        result = await execute(user_name="ann", message="look", files=[file])
    assert "名单.txt" in desk.scripted.requests[-1].last_user
    assert result.status == "success"


async def test_cancelling_whoever_waits_cancels_the_run_and_is_passed_on(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never said to the end"), gate, after=2))
    async with desk.environment():
        waiting = asyncio.create_task(execute(user_name="ann", message="long"))
        await asyncio.to_thread(gate.reached.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert query(desk.url, "SELECT status, owner_id FROM runs") == [("cancelled", None)]


async def test_cancelling_while_a_run_is_let_in_leaves_none_behind(desk: Desk):
    async with desk.environment():
        await execute(user_name="ann", message="the first one is slower")
        for milliseconds in range(0, 40, 2):
            waiting = asyncio.create_task(execute(user_name="ann", message="quick"))
            await SystemClock().sleep(milliseconds / 1000)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
    states = dict(query(desk.url, "SELECT status, count(*) FROM runs GROUP BY status"))
    assert set(states) <= {"success", "cancelled"}
    assert states["cancelled"] >= 1


async def test_a_run_that_somebody_else_cancels_is_a_result(desk: Desk):
    gate = Gate()
    desk.scripted.on("long", hold(say("never said to the end"), gate, after=3))
    async with desk.environment() as environment:
        waiting = asyncio.create_task(execute(user_name="ann", message="long"))
        await asyncio.to_thread(gate.reached.wait, 20)
        opened = environment.opened
        ann = await opened.identity.script_principal("ann")
        run_id = query(desk.url, "SELECT id FROM runs")[0][0]
        await opened.runtime.runs.cancel(ann, run_id)
        result = await waiting
    assert result.status == "cancelled"


async def test_nothing_but_its_own_run_is_taken_from_the_queue(desk: Desk):
    async with desk.environment() as environment:
        own = await execute(user_name="ann", message="one")
        query(
            desk.url,
            "UPDATE runs SET status = 'queued', owner_id = NULL, finished_at = NULL WHERE id = %s",
            (own.run_id,),
        )
        other = await execute(user_name="ann", message="two")
        await environment.opened.carrier.recover()
    assert other.status == "success"
    assert (await desk.run(own.run_id)).status is RunStatus.QUEUED


async def test_outside_of_an_environment_nothing_runs():
    with pytest.raises(WrongUse, match="async with RuntimeEnvironment"):
        await execute(user_name="ann", message="hello")
