"""What middleware keep in the state, and what becomes of sessions when middleware come and go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, shown, texts
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

pytestmark = pytest.mark.req("EXT-07")

HEAD = """
import dataclasses
import operator
from datetime import datetime
from enum import Enum
from typing import Annotated, NotRequired
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.types import interrupt
from pydantic import BaseModel

"""

KEEPS = """
class Mood(Enum):
    GOOD = "good"

class Note(BaseModel):
    words: list[str]
    at: datetime

@dataclasses.dataclass
class Point:
    x: int

class Kept(AgentState):
    note: NotRequired[Note]
    points: NotRequired[Annotated[list[Point], operator.add]]
    mood: NotRequired[Mood]
    told: NotRequired[str]
    once: NotRequired[Annotated[int, UntrackedValue]]
    thing: NotRequired[Annotated[object, UntrackedValue]]

class Keeps(AgentMiddleware):
    state_schema = Kept

    def before_agent(self, state, runtime):
        note = state.get("note") or Note(words=[], at=datetime(2026, 1, 2))
        words = [*note.words, state["messages"][-1].text]
        return {
            "note": Note(words=words, at=note.at), "points": [Point(1)], "mood": Mood.GOOD,
            "told": "nul \\x00 half \\ud800", "once": state.get("once", 0) + 1, "thing": object(),
        }

    def wrap_model_call(self, request, handler):
        state = request.state
        seen = [state["note"].words, [point.x for point in state["points"]], state["mood"].name]
        text = f"{seen} {state['once']} {state['note'].at.year}"
        return handler(request.override(system_message=SystemMessage(text)))

def setup(registry):
    registry.register_agent("keeper", "K.", "K.", ["calculate"])
    registry.register_middleware("keeps", lambda services: Keeps(), targets=["keeper"])
"""

WRITES = """
class Odd:
    def __init__(self):
        self.text = "secret=hunter2hunter2"

class Kept(AgentState):
    count: NotRequired[Annotated[int, operator.add]]
    thing: NotRequired[object]

class Writes(AgentMiddleware):
    state_schema = Kept

    def before_model(self, state, runtime):
        word = state["messages"][-1].text
        deep = []
        for _ in range(300):
            deep = [deep]
        return {
            "object": {"thing": Odd()}, "big": {"thing": 2**70}, "deep": {"thing": deep},
            "add": {"count": "text"}, "list": ["thing"], "inside": {"thing": {"a": [Odd()]}},
        }.get(word)

def setup(registry):
    registry.register_agent("writer", "W.", "W.", ["calculate"])
    registry.register_middleware("writes", lambda services: Writes(), targets=["writer"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path / "ext"


def wrapped(folder: Path, code: str) -> dict[str, str]:
    """Add an extension and return the setting that loads it."""
    add(folder, "wrapped", HEAD + code)
    return {"gw_extensions_path": str(folder)}


@pytest.mark.req("EXEC-22", "D13", "L25")
async def test_models_and_data_classes_are_kept_over_approvals_and_runs(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    scripted.on("first", call("calculate", {"expression": "1+1"}), say("Two."))
    scripted.on("second", say("Also."))
    settings = wrapped(folder, KEEPS)
    async with open_served(**settings) as served:
        asked = await served.chat("first", agent="keeper")
    async with open_served(**settings) as served:
        [one] = asked.last["tool_approval"]["calls"]
        decision = {"tool_call_id": one["tool_call_id"], "type": "approve"}
        reply = await served.resume(asked, decisions=[decision])
        assert reply.last["type"] == "done", reply.last
        again = await served.chat("second", agent="keeper", session_id=reply.session_id)
        assert again.last["type"] == "done", again.last
    systems = [seen.messages[0]["content"] for seen in scripted.requests]
    assert systems == [
        "[['first'], [1], 'GOOD'] 1 2026",
        "[['first'], [1], 'GOOD'] 1 2026",
        "[['first', 'second'], [1, 1], 'GOOD'] 1 2026",
    ]


@pytest.mark.req("D13")
@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("object", "'thing', which cannot be kept: Odd is no plain data"),
        ("inside", "'thing', which cannot be kept: Odd is no plain data"),
        ("big", "'thing', which cannot be kept: a whole number has more than 64 bits"),
        ("deep", "'thing', which cannot be kept: it is nested too deeply"),
        ("list", "gave list, not a dict of state or None"),
    ],
)
async def test_state_that_cannot_be_kept_ends_the_run_and_not_the_session(
    open_served: Opener, scripted: ScriptedServer, folder: Path, word: str, told: str
) -> None:
    async with open_served(**wrapped(folder, WRITES)) as served:
        reply = await served.chat(word, agent="writer")
        assert reply.last["code"] == "middleware_failed", reply.last
        assert told in reply.last["message"]
        assert "hunter2" not in str(reply.frames)
        again = await served.chat("go on", agent="writer", session_id=reply.session_id)
        assert again.last["type"] == "done", again.last


@pytest.mark.req("D13")
async def test_state_that_its_reducer_cannot_join_ends_the_run_and_not_the_session(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    async with open_served(**wrapped(folder, WRITES)) as served:
        reply = await served.chat("add", agent="writer")
        assert reply.last["code"] == "middleware_failed", reply.last
        assert "its reducer fails (TypeError)" in reply.last["message"]
        again = await served.chat("go on", agent="writer", session_id=reply.session_id)
        assert again.last["type"] == "done", again.last


ASKS = """
class Asks(AgentMiddleware):
    def {point}(self, state, runtime):
        if {when}:
            interrupt("Really?")

def setup(registry):
    registry.register_agent("asker", "A.", "A.", ["calculate"])
    registry.register_middleware("asks", lambda services: Asks(), targets=["asker"])
"""
GONE = """
def setup(registry):
    registry.register_agent("asker", "A.", "A.", ["calculate"])
"""


@pytest.mark.req("EXEC-42")
@pytest.mark.parametrize(
    ("point", "asked_model"),
    [("before_agent", 1), ("before_model", 1), ("after_model", 2), ("after_agent", 1)],
)
async def test_a_run_whose_question_is_gone_with_its_middleware_goes_on_to_its_answer(
    open_served: Opener, scripted: ScriptedServer, folder: Path, point: str, asked_model: int
) -> None:
    scripted.on_each("ask me", say("An answer."), say("An answer."))
    scripted.on("and now?", say("Go on."))
    code = ASKS.format(point=point, when="True")
    with forgotten():
        async with open_served(**wrapped(folder, code)) as served:
            asked = await served.chat("ask me", agent="asker")
            assert asked.last["type"] == "interrupt", asked.last
    with forgotten():
        async with open_served(**wrapped(folder / "new", GONE)) as served:
            reply = await served.resume(asked, answers=["yes"])
            assert reply.last["type"] == "done", reply.last
            assert texts(await history(served, reply.session_id)) == [
                ("user", "ask me"),
                ("assistant", "An answer."),
            ]
            assert len(scripted.requests) == asked_model
            again = await served.chat("and now?", agent="asker", session_id=reply.session_id)
            assert (again.last["type"], shown(again)) == ("done", "Go on."), again.last
            assert [seen.refused for seen in scripted.requests if seen.refused] == []


@pytest.mark.req("EXEC-42")
@pytest.mark.parametrize("gone", [True, False])
async def test_an_approval_goes_on_when_middleware_came_or_went_meanwhile(
    open_served: Opener, scripted: ScriptedServer, folder: Path, gone: bool
) -> None:
    scripted.on("work", call("calculate", {"expression": "2+2"}), say("Four."))
    code = KEEPS.replace("keeper", "asker")
    first, second = (code, GONE) if gone else (GONE, code)
    with forgotten():
        async with open_served(**wrapped(folder, first)) as served:
            asked = await served.chat("work", agent="asker")
            [one] = asked.last["tool_approval"]["calls"]
    decision = {"tool_call_id": one["tool_call_id"], "type": "approve"}
    with forgotten():
        async with open_served(**wrapped(folder / "new", second)) as served:
            reply = await served.resume(asked, decisions=[decision])
            if gone:
                assert (reply.last["type"], shown(reply)) == ("done", "Four."), reply.last
            else:
                # It reads state that its before_agent never had the chance to write.
                assert reply.last["code"] == "middleware_failed"
            again = await served.chat("and now?", agent="asker", session_id=reply.session_id)
            assert again.last["type"] == "done", again.last
