"""LangChain's human-in-the-loop middleware asks on the product's own cards (ADR 0019, EXEC-20)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import card, history
from tests.support.delegation import delegating
from tests.support.extension_folders import add, forgotten
from tests.support.foreign_graphs import graph_code
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import calls, say

MAILER = '''
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware

@tool
def mail(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"

@tool
def calculate(expression: str) -> str:
    """Not the product's tool of this name: it takes anything."""
    return f"{expression} is dear"

def mailer(mode):
    asks = {
        "mail": {"allowed_decisions": ["approve", "edit", "reject", "respond"],
                 "description": "A mail leaves the house."},
        "calculate": {"allowed_decisions": ["approve", "reject"]},
    }
    return create_agent(
        model(stream_usage=True), [mail, calculate],
        middleware=[HumanInTheLoopMiddleware(asks, interrupt_mode=mode)],
    )

def setup(registry):
    registry.register_agent(
        "chief", "Leads.", "You lead.", ["now"], delegates=["mailer", "caller"]
    )
    registry.register_subgraph("mailer", "Mails.", lambda: mailer("batched"))
    registry.register_subgraph("caller", "Mails one by one.", lambda: mailer("per_call"))
'''

BOTH = [("mail", {"to": "Ada"}, "m"), ("calculate", {"expression": "all"}, "c")]


@pytest.fixture
def folder(tmp_path: Path, scripted: ScriptedServer) -> Iterator[Path]:
    with forgotten():
        add(tmp_path / "ext", "mailer", graph_code(scripted, MAILER))
        yield tmp_path / "ext"


def answer(reply: Any, *decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a decision for each call of a card, in order."""
    ids = [one["tool_call_id"] for one in card(reply)]
    return [
        {"tool_call_id": call_id, **decision}
        for call_id, decision in zip(ids, decisions, strict=True)
    ]


@pytest.mark.req("EXT-04", "EXEC-20")
async def test_gated_calls_of_a_turn_stand_on_one_approval_and_are_decided_each(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    scripted.on("mail them", calls(BOTH), say("Mailed."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("mail them", agent="mailer")
        mail, sums = card(reply)
        assert (mail["tool"], mail["args"]) == ("mail", {"to": "Ada"})
        assert mail["reason"] == "A mail leaves the house."
        assert mail["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
        assert sums["allowed_decisions"] == ["approve", "reject"]
        edited = {"type": "edit", "args": {"to": "Bob"}}
        for refused in (
            {"type": "respond", "message": "x"},
            {"type": "approve", "always": "session"},
        ):
            wrong = await served.resume(reply, decisions=answer(reply, edited, refused))
            assert wrong.status == 422
        no = {"type": "reject", "message": "too dear"}
        done = await served.resume(reply, decisions=answer(reply, edited, no))
        assert (done.text, done.last["status"]) == ("Mailed.", "success")
        told = [str(one["content"]) for one in scripted.requests[-1].messages]
        assert any("sent to Bob" in text for text in told)
        assert any("too dear" in text for text in told)
        assert not any("all is dear" in text for text in told)


@pytest.mark.req("EXEC-41", "EXT-04", "EXEC-20")
@pytest.mark.parametrize(
    ("decision", "told"),
    [
        ({"type": "approve"}, "sent to Ada"),
        ({"type": "edit", "args": {"to": "Bob"}}, "sent to Bob"),
        ({"type": "reject", "message": "not now"}, "not now"),
        ({"type": "respond", "message": "I called her."}, "I called her."),
    ],
)
async def test_a_gated_call_of_a_delegated_graph_is_decided_on_the_usual_card(
    open_served: Opener,
    scripted: ScriptedServer,
    folder: Path,
    decision: dict[str, Any],
    told: str,
) -> None:
    scripted.on("ask around", delegating("mail her", agent="mailer"), say("Done."))
    scripted.on("mail her", calls(BOTH[:1]), say("Mailed."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("ask around", agent="chief")
        assert reply.last["agent_id"] == "mailer:call_1"
        done = await served.resume(reply, decisions=answer(reply, decision))
        assert done.text == "Done."
        assert told in str(scripted.requests[2].messages[-1]["content"])
        assert told in str(await history(served, reply.session_id))


@pytest.mark.req("EXEC-41", "EXT-04", "EXEC-20")
@pytest.mark.parametrize("by", ["caller", "chief"])
async def test_calls_that_ask_one_by_one_are_decided_one_after_the_other(
    open_served: Opener, scripted: ScriptedServer, folder: Path, by: str
) -> None:
    scripted.on("ask around", delegating("mail her", agent="caller"), say("Mailed."))
    scripted.on("mail her", calls(BOTH), say("Mailed."))
    message = {"caller": "mail her", "chief": "ask around"}[by]
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat(message, agent=by)
        # Which of two that ask at once comes first is up to the graph.
        given = {"mail": {"type": "edit", "args": {"to": "Bob"}}, "calculate": {"type": "approve"}}
        asked: dict[str, list[str]] = {}
        while reply.last["type"] == "interrupt":
            [one] = card(reply)
            assert one["tool"] not in asked
            asked[one["tool"]] = one["allowed_decisions"]
            reply = await served.resume(reply, decisions=answer(reply, given[one["tool"]]))
        assert asked == {
            "mail": ["approve", "edit", "reject", "respond"],
            "calculate": ["approve", "reject"],
        }
        assert (reply.text, reply.last["status"]) == ("Mailed.", "success")
        told = str([seen.messages for seen in scripted.requests if "mail her" in seen.last_user])
        assert "sent to Bob" in told
        assert "all is dear" in told
