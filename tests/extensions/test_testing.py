"""`extensions.testing`: an extension's tests drive the real agent without server or database."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from core.errors import (
    Invalid,
    NoPendingInterrupt,
    NotFound,
    ProviderRateLimited,
)
from extensions import (
    Registry,
)
from extensions.testing import FakeClock, Request, ScriptedModel, User, call, running, say
from tests.extensions.desk import Desk

pytestmark = pytest.mark.req("EXT-13")


# The run ----------------------------------------------------------------------------------


async def test_a_call_runs_by_the_real_agent_and_the_result_tells_it(desk: Desk) -> None:
    model = ScriptedModel(call("look_up", word="fan"), say("It moves air.", thinking="Aha."))
    async with running(desk.setup, model) as runner:
        assert desk.said == ["open"]
        result = await runner.ask("What is a fan?", agent="desk")
    assert desk.said == ["open", "closed"]
    assert (result.status, result.answer, result.error) == ("success", "It moves air.", None)
    [found] = result.results
    assert (found.tool, found.args, found.status, found.data) == (
        "look_up", {"word": "fan"}, "completed", "moves air",
    )  # fmt: skip
    kinds = [event["type"] for event in result.events]
    assert kinds[:2] == ["user_message", "agent_start"]
    assert kinds[-3:] == ["citations", "agent_done", "done"]
    assert result.of("tool_result")[0]["content"] == "moves air"
    assert result.of("thinking_token")[0]["content"] == "Aha."
    assert result.of("done")[0]["usage"]["output_tokens"] > 0


async def test_the_requests_show_what_the_agent_told_the_model(desk: Desk) -> None:
    model = ScriptedModel(call("look_up", word="fan"), "Done.")
    async with running(desk.setup, model, user=User("ada", "Answer in verse.")) as runner:
        await runner.ask("What is a fan?", agent="desk")
    first, second = model.requests
    assert first.tools[:3] == ["note", "look_up", "fragile"]
    assert "Keep the desk tidy." in first.system
    assert "Answer in verse." in first.system
    assert "demo-skill" in first.system
    assert first.last == "What is a fan?"
    assert "moves air" in second.last


async def test_approval_is_asked_for_and_what_was_approved_runs(desk: Desk) -> None:
    model = ScriptedModel(call("note", text="milk"), "Kept.")
    async with running(desk.setup, model, user=User("ada"), clock=FakeClock()) as runner:
        result = await runner.ask("Note milk.", agent="desk")
        assert (result.status, result.answer, result.results) == ("waiting_input", "", [])
        assert result.question is not None
        assert result.question.kind == "tool_approval"
        [card] = result.question.calls
        assert (card["tool"], card["args"]) == ("note", {"text": "milk"})
        result = await runner.approve()
        content, _ = await runner.files.read("/workspace/notes.txt")
    assert content == b"milk\n"
    assert result.answer == "Kept."
    assert result.question is None
    assert result.results[0].data == {"kept": "milk", "by": "ada", "at": "2026-01-01"}
    assert result.citations == result.results[0].sources
    assert result.of("progress") == [{"type": "progress", "message": "writing", "fraction": 0.5}]


async def test_every_other_decision_reaches_the_tool_and_the_model(desk: Desk) -> None:
    two = say("", call("note", text="a"), call("note", text="b"))
    model = ScriptedModel(
        call("note", text="milk"), "No.", call("note", text="milk"), "Tea.",
        call("note", text="milk"), "Ok.", two, "Both.", call("note", text="c"), "Free.",
    )  # fmt: skip
    async with running(desk.setup, model) as runner:
        await runner.ask("one", agent="desk")
        result = await runner.reject("too early")
        assert result.results[0].status == "denied"
        assert "too early" in model.requests[-1].last
        await runner.ask("two")
        result = await runner.edit({"text": "tea"})
        assert result.results[0].data["kept"] == "tea"
        await runner.ask("three")
        result = await runner.respond("I did it myself.")
        assert result.results[0].data == "I did it myself."
        await runner.ask("four")
        result = await runner.approve(always="session")
        assert [one.data["kept"] for one in result.results] == ["a", "b"]
        result = await runner.ask("five")
        assert result.answer == "Free."


async def test_questions_and_plans_are_answered(desk: Desk) -> None:
    asked = [
        {"question": "Which?", "kind": "single", "options": ["red", "blue"]},
        {"question": "Why?", "kind": "text"},
    ]
    model = ScriptedModel(
        call("ask_user", questions=asked), "Blue.",
        call("note", text="early"), call("request_plan_approval", plan="1. note"),
        call("note", text="now"), "Planned.",
    )  # fmt: skip
    async with running(desk.setup, model) as runner:
        result = await runner.ask("Ask me.", agent="desk")
        assert result.question is not None
        assert [one["question"] for one in result.question.questions] == ["Which?", "Why?"]
        result = await runner.answer("blue", "because")
        assert [one["answer"] for one in result.results[0].data["answers"]] == ["blue", "because"]
        result = await runner.ask("Plan it.", mode="plan")
        assert result.results[0].status == "denied"
        assert result.question is not None
        assert result.question.plan == "1. note"
        result = await runner.edit("1. note it well")
        assert result.question is not None
        assert result.question.kind == "tool_approval"
        result = await runner.approve()
        assert result.results[1].data["plan"] == "1. note it well"
        assert result.answer == "Planned."


async def test_an_answer_that_does_not_fit_leaves_the_question(desk: Desk) -> None:
    model = ScriptedModel(call("note", text="milk"), "Kept.")
    async with running(desk.setup, model) as runner:
        with pytest.raises(AssertionError, match="ask first"):
            await runner.approve()
        await runner.ask("x", agent="desk")
        with pytest.raises(Invalid, match="not expected here"):
            await runner.answer("blue")
        with pytest.raises(Invalid, match="text"):
            await runner.edit({"txt": "tea"})
        assert (await runner.approve()).answer == "Kept."
        with pytest.raises(NoPendingInterrupt):
            await runner.approve()


async def test_failures_are_told_as_in_the_product(desk: Desk) -> None:
    model = ScriptedModel(
        say("", call("fragile", kind="told"), call("fragile", kind="not"), call("look_up")),
        "Sorry.",
        ProviderRateLimited("Wait a while."),
        "Here again.",
    )
    async with running(desk.setup, model) as runner:
        result = await runner.ask("Break.", agent="desk")
        assert [one.status for one in result.results] == ["failed", "failed", "failed"]
        assert result.results[0].error == "Try another word."
        assert "secret" not in str(result)
        assert "word" in str(result.results[2].error)
        result = await runner.ask("Again.")
        assert (result.status, result.error) == ("failed", ProviderRateLimited.code)
        assert (await runner.ask("And again.")).answer == "Here again."


async def test_sessions_skills_files_and_functions_as_replies(desk: Desk) -> None:
    def echo(request: Request) -> str:
        return f"{len(request.messages)}: {request.last}"

    model = ScriptedModel("Hello.", echo, echo, call("load_skill", name="demo-skill"), "Read.")
    async with running(desk.setup, model) as runner:
        await runner.ask("One.", agent="desk")
        assert (await runner.ask("Two.")).answer == "4: Two."
        fresh = await runner.ask("Three.", new_session=True, files={"a.txt": b"hi"})
        assert fresh.answer.startswith("2: Three.")
        assert "/workspace/uploads/a.txt" in fresh.answer
        result = await runner.ask("#skill:demo-skill Four.")
        assert "<skill>" in model.requests[-2].last
        assert result.results[0].status == "completed"
        with pytest.raises(NotFound, match="no skill named"):
            await runner.ask("#skill:nothing Five.")
        with pytest.raises(NotFound, match=r"no agent 'dsk'.*desk"):
            await runner.ask("Six.", agent="dsk")


async def test_a_graph_of_its_own_runs_and_asks(desk: Desk) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        colour = interrupt("Which colour?")
        return {"messages": [AIMessage(f"It is {colour}.")]}

    def build() -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge("ask", END)
        return graph

    def setup(registry: Registry) -> None:
        registry.register_subgraph("painter", "Paints.", build)

    async with running(setup, ScriptedModel()) as runner:
        result = await runner.ask("Paint.", agent="painter")
        assert result.question is not None
        assert result.question.message == "Which colour?"
        assert (await runner.answer("green")).answer == "It is green."


# The script -------------------------------------------------------------------------------


async def test_a_script_that_is_too_short_fails_the_test_and_says_what_was_asked(
    desk: Desk,
) -> None:
    with pytest.raises(AssertionError, match=r"asked 2 times.* 1 replies.*moves air"):
        async with running(desk.setup, ScriptedModel(call("look_up", word="fan"))) as runner:
            await runner.ask("What is a fan?", agent="desk")
    assert desk.said == ["open", "closed"]


async def test_a_script_that_is_too_long_fails_the_test(desk: Desk) -> None:
    with pytest.raises(AssertionError, match=r"nobody asked the model for \['Never.'\]"):
        async with running(desk.setup, ScriptedModel("Once.", "Never.")) as runner:
            await runner.ask("Hello.", agent="desk")


async def test_the_error_of_a_test_is_not_hidden_by_replies_that_are_left(desk: Desk) -> None:
    with pytest.raises(ZeroDivisionError):
        async with running(desk.setup, ScriptedModel("Never.")):
            raise ZeroDivisionError


def test_a_scripted_model_gives_out_itself_and_no_other() -> None:
    model = ScriptedModel("x")
    assert model.get(None) is model.get("scripted") is model
    assert model.names() == ["scripted"]
    with pytest.raises(Invalid, match="no model 'gpt'"):
        model.get("gpt")
