"""An agent gives tasks to others: they work side by side, are seen, counted and kept apart."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import assert_numbered, history, results, texts
from tests.support.delegation import delegating, house, of_agent, parts_of
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, error, say

CHIEF = {"agent": "chief"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        add(tmp_path / "ext", "house", house())
        yield tmp_path / "ext"


@pytest.fixture
async def talk(open_served: Opener, folder: Path) -> AsyncIterator[Talk]:
    """The product with the chief and its researcher."""
    async with open_served(extensions_path=str(folder)) as served:
        yield served


@pytest.mark.req("EXEC-41", "CHAT-26", "EXT-09")
async def test_tasks_are_done_side_by_side_and_their_text_stays_inside(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("compare", delegating("look north", "look south"), say("North wins."))
    # Both conversations have a call of the same id, as real providers give them out.
    scripted.on(
        "look north",
        calls([("now", {}, "call_1")], text="Hm."),
        say("It is cold.", reasoning="Brr."),
    )
    scripted.on("look south", calls([("now", {}, "call_1")], text="Hm."), say("It is warm."))
    reply = await talk.chat("compare", **CHIEF)
    assert_numbered(reply.frames)
    assert reply.last["status"] == "success"
    assert reply.text == "North wins."
    assert not reply.of("thinking_token")
    assert len(reply.of("thinking")) == 2
    for number in (1, 2):
        assert of_agent(reply.frames, f"researcher:call_{number}") == [
            "agent_start",
            "executing",
            "tool_call",
            "tool_result",
            "agent_done",
        ]
    told = {event["tool_call_id"]: event for event in reply.of("tool_result")}
    assert len(told) == 4
    assert (told["call_1"]["content"], told["call_2"]["content"]) == ("It is cold.", "It is warm.")
    assert told["call_1"]["agent_id"] == "chief"

    messages = await history(talk, reply.session_id)
    assert texts(messages) == [("user", "compare"), ("assistant", "North wins.")]
    north, south = parts_of(messages)
    assert north["result"]["status"] == "completed"
    [inner] = north["activity"]
    assert (inner["tool"], inner["args"], inner["agent_id"]) == ("now", {}, "researcher:call_1")
    assert inner["result"]["status"] == "completed"
    assert south["activity"][0]["tool_call_id"] != inner["tool_call_id"]
    whole = await talk.client.get(
        f"/api/messages/{messages[1]['id']}/tool-results/{inner['tool_call_id']}"
    )
    assert "weekday" in whole.json()["content"]


@pytest.mark.req("EXEC-41")
async def test_a_task_is_a_conversation_of_its_own(talk: Talk, scripted: ScriptedServer) -> None:
    scripted.on("ask around", delegating("look north"), say("Done."))
    scripted.on("look north", say("It is cold."))
    await talk.chat("my secret is 4711, ask around", **CHIEF)
    chief, researcher, last = scripted.requests
    assert [message["role"] for message in researcher.messages] == ["system", "user"]
    assert researcher.last_user == "look north"
    assert "4711" not in json.dumps(researcher.body)
    assert "You research." in str(researcher.messages[0])
    assert "delegate" not in researcher.tool_names
    assert chief.tool_names == ["now", "write_file", "delegate"]
    [offered] = [tool["function"] for tool in chief.body["tools"][-1:]]
    assert offered["parameters"]["properties"]["agent"]["enum"] == ["researcher"]
    assert "Finds things out." in offered["description"]
    assert [message["role"] for message in last.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]


@pytest.mark.req("EXEC-41", "EXEC-14")
async def test_what_a_task_used_is_in_the_runs_usage_under_its_agents_name(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("look north"), say("Done."))
    scripted.on("look north", call("now"), say("It is cold."))
    reply = await talk.chat("ask around", **CHIEF)
    database = talk.served.product.database
    async with database.work() as work:
        rows = await work.usage.of_run(reply.run_id)
    assert sorted(row.agent for row in rows) == ["chief"] * 2 + ["researcher"] * 2
    usage = reply.last["usage"]
    assert usage["input_tokens"] == sum(row.input_tokens for row in rows)
    assert usage["output_tokens"] == sum(row.output_tokens for row in rows)
    context = await talk.client.get(f"/api/sessions/{reply.session_id}/context")
    chief = [row for row in rows if row.agent == "chief"]
    last = max(chief, key=lambda row: row.created_at)
    # How full the window is concerns the conversation, not what others did for it.
    assert context.json()["tokens"] == last.input_tokens + last.output_tokens
    assert context.json()["archives"] == []


@pytest.mark.req("EXEC-41")
async def test_the_ninth_task_of_a_run_is_refused_wherever_it_stands(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on(
        "many",
        delegating(*(f"look {number}" for number in range(5))),
        calls(
            [
                ("delegate", {"agent": "researcher", "task": f"look {number}"}, f"more_{number}")
                for number in range(5, 10)
            ]
        ),
        say("Enough."),
    )
    scripted.on("look", say("Seen."))
    reply = await talk.chat("many", **CHIEF)
    assert reply.text == "Enough."
    told = {event["tool_call_id"]: event["error"] for event in reply.of("tool_result")}
    assert [call for call, problem in told.items() if problem] == ["more_8", "more_9"]
    assert "8 tasks" in str(told["more_8"])
    assert len(scripted.requests) == 3 + 8
    # The next run has its own eight.
    again = await talk.chat("many", session_id=reply.session_id)
    assert len([event for event in again.of("tool_result") if not event["error"]]) == 8


@pytest.mark.req("EXEC-41")
async def test_an_agent_that_works_on_a_task_cannot_delegate(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("look north"), say("Done."))
    scripted.on("look north", delegating("deeper"), say("I did it myself."))
    reply = await talk.chat("ask around", **CHIEF)
    refused, done = reply.of("tool_result")
    assert "cannot delegate further" in refused["error"]
    assert (done["content"], done["error"]) == ("I did it myself.", None)
    assert len(scripted.requests) == 4


@pytest.mark.req("EXEC-41", "EXEC-03")
@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"agent": "researchr", "task": "x"}, "Did you mean researcher?"),
        ({"agent": "chief", "task": "x"}, "no agent 'chief'"),
        ({"agent": "researcher", "task": " "}, "say what is to be done"),
        ({"agent": "researcher"}, "task: "),
    ],
)
async def test_a_task_that_nobody_can_be_given_is_a_failed_result(
    talk: Talk, scripted: ScriptedServer, args: dict[str, str], told: str
) -> None:
    scripted.on("ask around", call("delegate", args), say("I see."))
    reply = await talk.chat("ask around", **CHIEF)
    assert told in reply.of("tool_result")[0]["error"]
    assert reply.text == "I see."
    assert len(reply.of("agent_start")) == 1


@pytest.mark.req("EXEC-41", "EXEC-07")
async def test_plan_mode_holds_inside_until_a_plan_is_approved(
    talk: Talk, scripted: ScriptedServer
) -> None:
    write = {"path": "/workspace/a.txt", "content": "a"}
    scripted.on("ask around", delegating("write it"), say("Done."))
    scripted.on("write it", call("write_file", write, id="w"), say("As you see."))
    reply = await talk.chat("ask around", mode="plan", **CHIEF)
    assert "plan mode" in reply.of("tool_result")[0]["error"]
    assert "plan mode" in str(scripted.requests[1].messages[0])
    assert not list(talk.data_dir.rglob("a.txt"))

    scripted.on(
        "plan first",
        call("delegate", {"agent": "researcher", "task": "plan it"}, id="first"),
        call("delegate", {"agent": "researcher", "task": "write it"}, id="second"),
        say("Done."),
    )
    scripted.on("plan it", call("request_plan_approval", {"plan": "1. Write."}), say("Planned."))
    asked = await talk.chat("plan first", session_id=reply.session_id)
    assert asked.last["plan_approval"]["plan"] == "1. Write."
    assert asked.last["agent_id"] == "researcher:first"
    done = await talk.resume(asked, type="approve")
    # What a sub-run's plan allows, it allows that sub-run.
    assert done.last["status"] == "success"
    assert not list(talk.data_dir.rglob("a.txt"))


@pytest.mark.req("EXEC-41", "EXEC-39")
async def test_a_task_that_fails_is_a_result_and_the_chief_goes_on(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("look north", "look south"), say("Only the south."))
    scripted.on("look north", error(400, "no"))
    scripted.on("look south", say("It is warm."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.text == "Only the south."
    failed, done = sorted(reply.of("tool_result"), key=lambda event: event["tool_call_id"])
    assert "Researcher did not finish this task: " in failed["error"]
    assert done["error"] is None
    [event] = reply.of("agent_error")
    assert (event["agent"], event["agent_id"]) == ("researcher", "researcher:call_1")
    assert results(await history(talk, reply.session_id)) == {
        "call_1": "failed",
        "call_2": "completed",
    }


@pytest.mark.req("EXEC-41", "EXEC-07")
async def test_the_plan_of_a_task_does_not_replace_the_users(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("look north"), say("Done."))
    todos = {"todos": [{"content": "look", "status": "in_progress"}]}
    scripted.on("look north", call("update_plan", todos), say("Seen."))
    reply = await talk.chat("ask around", **CHIEF)
    assert reply.of("updated_todo_list") == []
    assert [event["tool"] for event in reply.of("tool_call")] == ["delegate", "update_plan"]


SOURCED = """
from extensions import define_tool, source, sourced

@define_tool()
def look_up(word: str) -> str:
    \"\"\"Look a word up.

    Args:
        word: what to look up.
    \"\"\"
    return sourced("a fan moves air", [source("Handbook", "https://example.org/fan")])

def setup(registry):
    registry.register_agent("head", "Leads.", "You lead.", delegates=["reader"])
    registry.register_agent("reader", "Reads.", "You read.", [look_up])
"""


@pytest.mark.req("EXEC-41", "EXT-08")
async def test_sources_found_in_a_task_are_citations_of_the_answer(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "readers", SOURCED)
    scripted.on("fans", delegating("read", "read on", agent="reader"), say("They move air."))
    scripted.on("read", call("look_up", {"word": "fan"}), say("A fan moves air."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("fans", agent="head")
        [cited] = reply.of("citations")
        assert [item["url"] for item in cited["items"]] == ["https://example.org/fan"]
        assert not cited["model_only"]


@pytest.mark.req("EXEC-41", "EXT-09")
async def test_progress_inside_a_task_says_whose_it_is_and_a_long_answer_is_kept_whole(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "slow", SLOW_TOOL)
    long = "word " * 5_000
    scripted.on("go", delegating("work", agent="worker"), say("Done."))
    scripted.on("work", call("work"), say(long, size=1_000))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("go", agent="boss")
        [event] = reply.of("progress")
        assert (event["message"], event["agent_id"]) == ("half", "worker:call_1")
        told = json.loads(scripted.requests[-1].messages[-1]["content"])
        assert "read_file /conversation_history/results/" in told["meta"]["whole"]
        messages = await history(served, reply.session_id)
        path = f"/api/messages/{messages[1]['id']}/tool-results/call_1"
        assert (await served.client.get(path)).json()["content"] == long.strip()


SLOW_TOOL = """
from extensions import ToolContext, define_tool

@define_tool()
def work(ctx: ToolContext) -> str:
    \"\"\"Work.\"\"\"
    ctx.progress("half", 0.5)
    return "done"

def setup(registry):
    registry.register_agent("boss", "Leads.", "You lead.", delegates=["worker"])
    registry.register_agent("worker", "Works.", "You work.", [work])
"""
