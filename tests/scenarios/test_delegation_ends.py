"""Limits, cancelling and deleting take tasks of other agents along (EXEC-41, EXEC-09, CHAT-08)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results
from tests.support.app import Frame, frames_of
from tests.support.delegation import delegating, house, of_agent, parts_of
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, Pause, call, calls, hold, say

CHIEF = {"agent": "chief"}

SLOW = '''
import asyncio
from extensions import define_tool

@define_tool()
async def dig(ctx_depth: int) -> str:
    """Dig for ever.

    Args:
        ctx_depth: how deep.
    """
    await asyncio.Event().wait()
    return ""

def setup(registry):
    registry.register_agent("chief", "Leads.", "You lead.", ["now"], delegates=["digger"])
    registry.register_agent(
        "digger", "Digs.", "You dig.", ["now", dig], label="Digger",
        limits={"model_calls": 3, "steps": 50},
    )
'''


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path / "ext"


@pytest.mark.req("EXEC-41", "EXEC-09")
async def test_an_agents_own_limit_ends_its_task_and_not_the_run(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "house", SLOW)
    scripted.on("ask around", delegating("look", agent="digger"), say("It gave up."))
    scripted.on("look", *(call("now", id=f"n{turn}") for turn in range(9)))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("ask around", **CHIEF)
    assert reply.text == "It gave up."
    [failed] = [event for event in reply.of("tool_result") if event["tool"] == "delegate"]
    assert "Digger did not finish this task: The limit of model calls" in failed["error"]
    assert len(scripted.requests) == 2 + 3


@pytest.mark.req("EXEC-41", "EXEC-15", "EXEC-09")
async def test_steps_of_a_task_do_not_count_for_the_one_who_gave_it(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(
        folder,
        "house",
        house('limits={"steps": 50},').replace('label="Chief"', 'limits={"steps": 4}'),
    )
    scripted.on("ask around", delegating("look", "look again"), say("Done."))
    rounds = [call("now", {"timezone": zone}) for zone in ("UTC", "Asia/Tokyo", "Asia/Shanghai")]
    scripted.on("look", *rounds, say("Seen."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("ask around", **CHIEF)
    assert (reply.text, reply.last["status"]) == ("Done.", "success")


@pytest.mark.req("EXEC-41", "EXEC-09")
@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_model_calls": 4}, "model_call_limit"),
        ({"run_token_budget": 900}, "token_budget"),
        ({"run_seconds": 1}, "time_budget"),
    ],
)
async def test_a_runs_budgets_hold_inside_its_tasks(
    open_served: Opener,
    scripted: ScriptedServer,
    folder: Path,
    limits: dict[str, Any],
    code: str,
) -> None:
    add(folder, "house", house())
    scripted.on("ask around", delegating("look", "look again"), say("Done."))
    rounds = [call("now", {"timezone": zone}) for zone in ("UTC", "Asia/Tokyo", "Asia/Shanghai")]
    if code == "time_budget":
        rounds = [replace(call("now"), before_headers=(Pause(1.2),))]
    scripted.on("look", *rounds, *rounds, *rounds, say("Seen."))
    async with open_served(extensions_path=str(folder), **limits) as served:
        reply = await served.chat("ask around", **CHIEF)
        assert (reply.last["type"], reply.last["code"]) == ("error", code)
        assert set(results(await history(served, reply.session_id)).values()) == {"failed"}
        assert {event["agent"] for event in reply.of("agent_error")} == {"researcher", "chief"}
    assert len(scripted.requests) < 9


async def until(frames: Any, seen: list[Frame], kind: str, **fields: Any) -> None:
    """Read frames up to one of this type with these fields."""
    while not (seen and seen[-1].type == kind and fields.items() <= seen[-1].data.items()):
        seen.append(await anext(frames))


@pytest.mark.req("EXEC-41", "CHAT-08", "P10")
async def test_cancelling_stops_a_task_in_its_tool_and_closes_what_was_open(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "house", SLOW)
    scripted.on("ask around", delegating("go", agent="digger"), say("Never said."))
    scripted.on("go", calls([("now", {}, "a"), ("dig", {"ctx_depth": 1}, "b")]), say("No."))
    scripted.on("and now?", say("We go on."))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "ask around", **CHIEF})
        async with begun as response:
            frames, seen = frames_of(response), list[Frame]()
            await until(frames, seen, "tool_result", tool="now")
            run = seen[0].data
            await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            seen += [frame async for frame in frames]
        assert seen[-1].data["status"] == "cancelled"
        assert seen[-1].data["usage"]["output_tokens"] > 0
        assert of_agent(seen, "digger:call_1")[-1] == "tool_result"
        assert [f.data["tool"] for f in seen if f.type == "tool_result"] == [
            "now",
            "dig",
            "delegate",
        ]
        messages = await history(served, run["session_id"])
        [part] = parts_of(messages)
        assert part["result"]["status"] == "cancelled"
        assert [(one["tool"], one["result"]["status"]) for one in part["activity"]] == [
            ("now", "completed"),
            ("dig", "cancelled"),
        ]
        after = await served.chat("and now?", session_id=run["session_id"])
        assert after.text == "We go on."
        roles = [message["role"] for message in scripted.requests[-1].messages]
        assert roles == ["system", "user", "assistant", "tool", "user"]
        assert [seen.refused for seen in scripted.requests if seen.refused] == []


@pytest.mark.req("EXEC-41", "CHAT-08")
async def test_cancelling_stops_a_task_in_the_middle_of_its_text(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "house", house())
    gate = Gate()
    scripted.on("ask around", delegating("look"), say("Never said."))
    scripted.on("look", hold(say("These words are nobody's."), gate, after=2))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "ask around", **CHIEF})
        async with begun as response:
            frames, seen = frames_of(response), list[Frame]()
            await until(frames, seen, "agent_start", agent="researcher")
            run = seen[0].data
            await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            seen += [frame async for frame in frames]
        gate.open()
        assert seen[-1].data["status"] == "cancelled"
        assert "These words" not in str([frame.data for frame in seen])
        assert "These words" not in str(await history(served, run["session_id"]))


async def stored(talk: Talk, table: str, session_id: str) -> int:
    """Return how many rows of a table belong to a session's thread."""
    database = talk.served.product.database
    async with database.pool.connection() as connection:
        found = await connection.execute(
            f"SELECT count(*) AS n FROM {table} WHERE thread_id = %s", (session_id,)
        )
        row = await found.fetchone()
    return row["n"] if row else 0


@pytest.mark.req("EXEC-41", "CHAT-20", "EXEC-02")
async def test_deleting_a_session_takes_the_states_of_its_tasks_along(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "house", house())
    scripted.on("ask around", delegating("look"), say("Done."))
    scripted.on("look", call("now"), say("Seen."))
    tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("ask around", **CHIEF)
        database = served.served.product.database
        async with database.pool.connection() as connection:
            found = await connection.execute("SELECT DISTINCT checkpoint_ns FROM checkpoints")
            spaces = [row["checkpoint_ns"] for row in await found.fetchall()]
        assert [space.partition(":")[0] for space in sorted(spaces)] == ["", "run_tool"]
        assert all([await stored(served, table, reply.session_id) for table in tables])
        gone = await served.client.delete(f"/api/sessions/{reply.session_id}")
        assert gone.status_code in (200, 204)
        assert [await stored(served, table, reply.session_id) for table in tables] == [0, 0, 0]


@pytest.mark.req("EXEC-41", "EXEC-10", "EXEC-11")
async def test_a_long_task_is_summarised_by_itself_and_leaves_the_sessions_archive_alone(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "house", house('limits={"context_limit": 9000},'))
    scripted.on("ask around", delegating("look long"), say("Done."))
    long = "words and more words " * 500
    scripted.on(
        "look long",
        *(
            call("write_file", {"path": f"/workspace/{n}.txt", "content": long}, id=f"w{n}")
            for n in range(4)
        ),
        say("Seen."),
    )
    scripted.on(lambda seen: not seen.tool_names, say("They wrote files."))
    async with open_served(extensions_path=str(folder), context_limit=60_000) as served:
        reply = await served.chat("ask around", **CHIEF)
        assert reply.text == "Done."
        assert any("Summarising" in event["message"] for event in reply.of("progress"))
        assert {event.get("agent_id") for event in reply.of("progress")} == {"researcher:call_1"}
        context = await served.client.get(f"/api/sessions/{reply.session_id}/context")
        assert context.json()["archives"] == []
        archives = [path.name for path in served.data_dir.rglob("conversation_history/*.md")]
        assert archives != [f"{reply.session_id}.md"]
        assert len(archives) == 1
