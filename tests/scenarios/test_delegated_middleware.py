"""Middleware around an agent stands around it in delegated tasks, too (EXEC-41, EXT-07)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, results, shown, texts
from tests.support.app import Reply
from tests.support.delegation import delegating, house, of_agent, parts_of
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, calls, say

pytestmark = pytest.mark.req("EXEC-41", "EXT-07")

CHIEF = {"agent": "chief"}

WRAPPED = """
from langchain.agents import middleware as ready
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.types import interrupt

RAN = []

class Loud(AgentMiddleware):
    def before_agent(self, state, runtime):
        RAN.append("begun")

    def after_model(self, state, runtime):
        turn = state["messages"][-1]
        return {"messages": [AIMessage(turn.text.upper(), id=turn.id, tool_calls=turn.tool_calls)]}

    def after_agent(self, state, runtime):
        RAN.append("ended")

class Asks(AgentMiddleware):
    def before_model(self, state, runtime):
        if "unsure" in state["messages"][-1].text:
            answer = interrupt("Shall I?")
            return {"messages": [HumanMessage(f"The user says {answer}.")]}

    def after_model(self, state, runtime):
        if "doubtful" in state["messages"][-1].text.lower():
            interrupt("May I say that?")

class Silent(AgentMiddleware):
    @hook_config(can_jump_to=["end"])
    def before_model(self, state, runtime):
        if "be silent" in state["messages"][-1].text:
            return {"jump_to": "end"}

class Breaks(AgentMiddleware):
    def wrap_model_call(self, request, handler):
        if "break" in request.messages[-1].text:
            raise RuntimeError("postgresql://admin:hunter2hunter2@db/prod")
        return handler(request)

class Seen(AgentMiddleware):
    def wrap_tool_call(self, request, handler):
        RAN.append(request.tool_call["name"])
        return handler(request)
"""
AROUND = """
    one = ["researcher"]
    registry.register_middleware("loud", lambda services: Loud(), targets=one)
    registry.register_middleware("asks", lambda services: Asks(), targets=one)
    registry.register_middleware("silent", lambda services: Silent(), targets=one)
    registry.register_middleware("breaks", lambda services: Breaks(), targets=one)
    registry.register_middleware("seen", lambda services: Seen(), targets=one)
    registry.register_middleware(
        "limit", lambda services: ready.ToolCallLimitMiddleware(tool_name="calculate", run_limit=1),
        targets=one,
    )
    registry.register_middleware(
        "tasks", lambda services: ready.ToolCallLimitMiddleware(tool_name="delegate", run_limit=2),
        targets=["chief"],
    )
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        add(tmp_path / "ext", "house", WRAPPED + house() + AROUND)
        yield tmp_path / "ext"


@pytest.fixture
async def talk(open_served: Opener, folder: Path) -> AsyncIterator[Talk]:
    """The product; `calculate` needs approval, and only the researcher has it."""
    async with open_served(gw_extensions_path=str(folder)) as served:
        yield served


async def tasks(talk: Talk, reply: Reply) -> list[dict[str, Any]]:
    """Return the calls of `delegate` in a history, in order."""
    return parts_of(await history(talk, reply.session_id))


async def approved(talk: Talk, reply: Reply) -> Reply:
    [one] = reply.last["tool_approval"]["calls"]
    decision = {"tool_call_id": one["tool_call_id"], "type": "approve"}
    return await talk.resume(reply, decisions=[decision])


async def test_a_changed_answer_of_a_task_is_its_result_and_shown_to_nobody(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("find it"), say("Found."))
    scripted.on("find it", call("now"), say("it is here"))
    reply = await talk.chat("ask around", **CHIEF)
    assert (reply.last["type"], shown(reply), reply.text) == ("done", "Found.", "Found.")
    [task] = await tasks(talk, reply)
    assert "IT IS HERE" in task["result"]["preview"]
    assert [one["tool"] for one in task["activity"]] == ["now"]
    assert "it is here" not in str(reply.frames)
    assert [frame.type for frame in reply.frames].count("message_reset") == 0
    assert of_agent(reply.frames, "researcher:call_1").count("tool_result") == 1
    assert texts(await history(talk, reply.session_id))[-1] == ("assistant", "Found.")


async def test_a_middleware_of_a_task_asks_in_its_agents_name(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("unsure one", "unsure two"), say("Asked."))
    scripted.on("The user says yes.", say("Agreed."))
    first = await talk.chat("ask around", **CHIEF)
    assert first.last["agent_id"] == "researcher:call_1", first.last
    assert first.last["ask_user"]["questions"][0]["question"] == "Shall I?"
    second = await talk.resume(first, answers=["yes"])
    assert second.last["agent_id"] == "researcher:call_2", second.last
    done = await talk.resume(second, answers=["yes"])
    assert (done.last["type"], shown(done)) == ("done", "Asked."), done.last
    assert ["AGREED" in one["result"]["preview"] for one in await tasks(talk, done)] == [True, True]


@pytest.mark.req("EXEC-22")
async def test_limits_of_a_middleware_hold_for_each_task_over_its_approvals(
    talk: Talk, scripted: ScriptedServer
) -> None:
    ones = [call("calculate", {"expression": f"1+{number}"}) for number in (1, 2)]
    scripted.on("ask around", delegating("sum it"), say("Summed."))
    scripted.on("sum it", *ones, say("enough"))
    reply = await approved(talk, await talk.chat("ask around", **CHIEF))
    assert reply.last["type"] == "done", reply.last
    [task] = await tasks(talk, reply)
    assert [one["result"]["status"] for one in task["activity"]] == ["completed", "failed"]


@pytest.mark.parametrize(
    ("task", "told"),
    [("be silent", "ended without an answer"), ("break", "breaks failed in wrap_model_call")],
)
async def test_a_task_that_its_middleware_ends_is_a_failed_one(
    talk: Talk, scripted: ScriptedServer, task: str, told: str
) -> None:
    scripted.on("ask around", delegating(task), say("So be it."))
    reply = await talk.chat("ask around", **CHIEF)
    assert (reply.last["type"], shown(reply)) == ("done", "So be it."), reply.last
    [one] = await tasks(talk, reply)
    assert (one["result"]["status"], told in one["result"]["error"]) == ("failed", True)
    assert "hunter2" not in str(reply.frames) + str(scripted.requests[-1].body)


async def test_a_middleware_of_the_chief_can_limit_its_tasks(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("one", "two", "three"), say("Two were enough."))
    for word in ("one", "two", "three"):
        scripted.on(word, say(word))
    reply = await talk.chat("ask around", **CHIEF)
    assert shown(reply) == "Two were enough."
    kept = results(await history(talk, reply.session_id))
    assert list(kept.values()) == ["completed", "completed", "failed"]


@pytest.mark.req("EXEC-30")
async def test_a_cancel_in_a_turn_that_was_not_let_stand_tells_nothing_of_it(
    talk: Talk, scripted: ScriptedServer
) -> None:
    scripted.on("ask around", delegating("find it"), say("Never."))
    scripted.on("find it", say("A doubtful thing."))
    asked = await talk.chat("ask around", **CHIEF)
    assert asked.last["ask_user"]["questions"][0]["question"] == "May I say that?", asked.last
    answer = await talk.client.post(f"/api/runs/{asked.run_id}/cancel")
    assert answer.status_code == 202
    kept = await history(talk, asked.session_id)
    assert list(results(kept).values()) == ["cancelled"]
    whole = await talk.client.get(f"/api/runs/{asked.run_id}/events")
    assert "cancelled" in whole.text
    assert "doubtful" not in f"{asked.frames}{kept}{whole.text}".lower()
    scripted.on("go on", calls([("now", {})]), say("Gone on."))
    again = await talk.chat("go on", session_id=asked.session_id, **CHIEF)
    assert (again.last["type"], shown(again)) == ("done", "Gone on."), again.last
    assert "doubtful" not in f"{again.frames}{scripted.requests[-1].body}".lower()
    assert [seen.refused for seen in scripted.requests if seen.refused] == []
