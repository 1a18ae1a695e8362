"""Approvals, questions and plans: who is asked, and what each answer does."""

from __future__ import annotations

import json

import pytest

from core.tooling import ToolContext, define_tool
from tests.support.scripted_turns import call, calls, say

PLAN = "1. Write the note."


@define_tool(requires_approval=True, side_effect="write")
async def note(ctx: ToolContext, text: str) -> str:
    """Write a line down."""
    await ctx.files.append("/workspace/notes.txt", f"{text}\n".encode())
    return "noted"


@define_tool(
    requires_approval=True, side_effect="external", allowed_decisions=("approve", "reject")
)
async def post(ctx: ToolContext, text: str) -> str:
    """Post something."""
    await ctx.files.append("/workspace/notes.txt", f"posted {text}\n".encode())
    return "posted"


async def notes(talk) -> list[str]:
    entries = await talk.files.list("/workspace")
    if not any(entry.path == "/workspace/notes.txt" for entry in entries):
        return []
    return (await talk.files.read("/workspace/notes.txt"))[0].decode().splitlines()


def status(result) -> str:
    return json.loads(result.text)["status"]


BATCH = calls(
    [
        ("note", {"text": "a"}, "k1"),
        ("calculate", {"expression": "1+1"}, "free"),
        ("post", {"text": "b"}, "k2"),
        ("note", {"text": "c"}, "k3"),
        ("note", {"text": "d"}, "k4"),
    ]
)


@pytest.mark.req("EXEC-20")
async def test_the_card_holds_exactly_the_calls_that_need_approval_in_call_order(
    talk_with, scripted
):
    scripted.on("go", BATCH, say("done"))
    talk = talk_with(tools=[note, post])
    await talk.say("go")
    card = talk.question.value
    assert card["kind"] == "tool_approval"
    assert card["call_ids"] == ["k1", "k2", "k3", "k4"]
    cards = card["tool_approval"]["calls"]
    assert [one["tool_call_id"] for one in cards] == card["call_ids"]
    assert cards[1] == {
        "tool_call_id": "k2",
        "tool": "post",
        "args": {"text": "b"},
        "reason": "It acts outside this server.",
        "side_effect": "external",
        "allowed_decisions": ["approve", "reject"],
    }
    assert card["tool_approval"]["tool"] is None
    assert await talk.results() == {}
    assert talk.seen.named("tool_call") == []


@pytest.mark.req("EXEC-20")
async def test_a_single_call_fills_the_old_single_form_too(talk_with, scripted):
    scripted.on("go", call("note", {"text": "a"}, id="k1"), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    card = talk.question.value["tool_approval"]
    assert (card["tool"], card["args"], card["side_effect"]) == ("note", {"text": "a"}, "write")


@pytest.mark.req("EXEC-20", "H03", "H05")
async def test_each_call_meets_its_own_decision_whatever_the_order_of_the_answer(
    talk_with, scripted
):
    scripted.on("go", BATCH, say("done"))
    talk = talk_with(tools=[note, post])
    await talk.say("go")
    last = await talk.answer(
        decisions=[
            {"tool_call_id": "k4", "type": "respond", "message": "It says 'e' already."},
            {"tool_call_id": "k3", "type": "edit", "args": {"text": "changed"}},
            {"tool_call_id": "k2", "type": "reject", "message": "Too public."},
            {"tool_call_id": "k1", "type": "approve"},
        ]
    )
    assert last == "done"
    assert sorted(await notes(talk)) == ["a", "changed"]
    results = await talk.results()
    assert list(results) == ["k1", "free", "k2", "k3", "k4"]
    assert status(results["k1"]) == status(results["free"]) == "completed"
    assert status(results["k2"]) == "denied"
    assert "Too public." in results["k2"].text
    assert results["k2"].artifact["error"].endswith("Reason: Too public.")
    assert json.loads(results["k4"].text)["data"] == "It says 'e' already."
    assert scripted.refused == []


@pytest.mark.req("EXEC-20", "H03")
async def test_the_same_tool_twice_is_told_apart_by_id(talk_with, scripted):
    scripted.on("go", calls([("note", {"text": t}, t) for t in ("x", "y")]), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    await talk.answer(
        decisions=[
            {"tool_call_id": "y", "type": "approve"},
            {"tool_call_id": "x", "type": "reject"},
        ]
    )
    assert await notes(talk) == ["y"]


@pytest.mark.req("EXEC-20")
async def test_a_call_without_decision_never_runs(talk_with, scripted):
    scripted.on("go", calls([("note", {"text": t}, t) for t in ("x", "y")]), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    await talk.answer(decisions=[{"type": "approve"}, {"tool_call_id": "y", "type": "approve"}])
    assert await notes(talk) == ["y"]
    assert status((await talk.results())["x"]) == "denied"


@pytest.mark.req("EXEC-20")
async def test_edited_arguments_are_shown_stored_and_told_to_the_model(talk_with, scripted):
    scripted.on("go", call("note", {"text": "a"}, id="k1"), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    await talk.answer(decisions=[{"tool_call_id": "k1", "type": "edit", "args": {"text": "b"}}])
    assert talk.seen.named("tool_call")[0]["args"] == {"text": "b"}
    sent = scripted.requests[-1].messages
    assert json.loads(sent[2]["tool_calls"][0]["function"]["arguments"]) == {"text": "b"}
    assert "user changed the arguments" in sent[3]["content"]
    assert (await talk.messages())[1].tool_calls[0]["args"] == {"text": "b"}


@pytest.mark.req("EXEC-20")
async def test_an_edit_that_does_not_fit_the_schema_never_reaches_the_tool(talk_with, scripted):
    scripted.on("go", call("note", {"text": "a"}, id="k1"), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    await talk.answer(decisions=[{"tool_call_id": "k1", "type": "edit", "args": {"texts": 1}}])
    assert await notes(talk) == []
    assert status((await talk.results())["k1"]) == "failed"


@pytest.mark.req("H05")
@pytest.mark.parametrize("message", ["", "Not now."])
async def test_rejecting_all_leaves_a_result_for_each_call(message, talk_with, scripted):
    scripted.on("go", calls([("note", {"text": t}, t) for t in ("x", "y")]), say("I see."))
    talk = talk_with(tools=[note])
    await talk.say("go")
    decision = {"type": "reject"} | ({"message": message} if message else {})
    last = await talk.answer(decisions=[decision | {"tool_call_id": t} for t in ("x", "y")])
    assert last == "I see."
    assert await notes(talk) == []
    assert scripted.refused == []


@pytest.mark.req("EXEC-23")
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, False),
        ({"hitl": ["calculate"]}, True),
        ({"agent": {"approval_tools": ["calculate"]}}, True),
    ],
)
async def test_settings_and_agents_add_tools_that_need_approval(
    options, asked, talk_with, scripted
):
    scripted.on("go", call("calculate", {"expression": "1"}, id="k1"), say("done"))
    talk = talk_with(**options)
    await talk.say("go")
    assert (talk.question is not None) == asked


@pytest.mark.req("EXEC-20")
async def test_a_grant_takes_a_tool_off_the_card(talk_with, scripted):
    scripted.on("go", BATCH, say("done"))
    talk = talk_with(tools=[note, post])
    talk.seen.allowed = {"note"}
    await talk.say("go")
    assert talk.question.value["call_ids"] == ["k2"]


@pytest.mark.req("EXEC-20")
async def test_a_grant_given_with_the_answer_does_not_shift_the_questions(talk_with, scripted):
    asked = [
        ("note", {"text": "a"}, "k1"),
        ("ask_user", {"questions": [{"question": "Why?"}]}, "q"),
    ]
    scripted.on("go", calls(asked), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    talk.seen.allowed = {"note"}
    await talk.answer(decisions=[{"tool_call_id": "k1", "type": "approve"}])
    assert talk.question.value["kind"] == "ask_user"
    await talk.answer(answers=["Because."])
    assert await notes(talk) == ["a"]
    assert "Because." in (await talk.results())["q"].text


@pytest.mark.req("EXEC-20")
@pytest.mark.parametrize("first", [False, True])
async def test_free_calls_wait_for_the_others_unless_the_agent_says_otherwise(
    first, talk_with, scripted
):
    scripted.on("go", BATCH, say("done"))
    talk = talk_with(tools=[note, post], agent={"free_calls_first": first})
    await talk.say("go")
    assert list(await talk.results()) == (["free"] if first else [])
    decisions = [{"tool_call_id": k, "type": "approve"} for k in ("k1", "k2", "k3", "k4")]
    assert await talk.answer(decisions=decisions) == "done"
    shown = [m["tool_call_id"] for m in scripted.requests[-1].messages if m["role"] == "tool"]
    assert shown == ["k1", "free", "k2", "k3", "k4"]
    assert len(await notes(talk)) == 4
    assert scripted.refused == []


@pytest.mark.req("EXEC-20", "L14")
async def test_nobody_is_asked_about_calls_that_cannot_run(talk_with, scripted):
    asked = [("note", {"txt": 1}, "k1"), ("note", '{"text": "cu', "k2"), ("nothing", {}, "k3")]
    scripted.on("go", calls(asked), say("I see."))
    talk = talk_with(tools=[note])
    assert await talk.say("go") == "I see."
    assert {status(result) for result in (await talk.results()).values()} == {"failed"}
    assert scripted.refused == []


@pytest.mark.req("EXEC-08")
async def test_questions_of_all_calls_stand_on_one_card_and_answers_go_back_to_each(
    talk_with, scripted
):
    choice = {"question": "Which?", "kind": "multiple", "options": ["a", "b"]}
    asked = [
        ("ask_user", {"questions": [{"question": "Why?"}, choice]}, "q1"),
        ("ask_user", {"questions": [{"question": "When?"}]}, "q2"),
    ]
    scripted.on("go", calls(asked), say("Thanks."))
    talk = talk_with()
    await talk.say("go")
    card = talk.question.value["ask_user"]
    assert [one["question"] for one in card["questions"]] == ["Why?", "Which?", "When?"]
    assert await talk.answer(answers=["So.", ["a", "b"], "Now."]) == "Thanks."
    results = await talk.results()
    assert json.loads(results["q1"].text)["data"]["answers"] == [
        {"question": "Why?", "answer": "So."},
        {"question": "Which?", "answer": ["a", "b"]},
    ]
    assert json.loads(results["q2"].text)["data"]["answers"][0]["answer"] == "Now."


@pytest.mark.req("EXEC-07")
async def test_in_plan_mode_nothing_that_changes_anything_runs_before_approval(talk_with, scripted):
    scripted.on(
        "go",
        calls([("write_file", {"path": "/workspace/x", "content": "1"}, "w1"),
               ("list_files", {}, "l1")]),
        call("request_plan_approval", {"plan": PLAN}, id="p1"),
        call("write_file", {"path": "/workspace/x", "content": "2"}, id="w2"),
        say("done"),
    )  # fmt: skip
    talk = talk_with(mode="plan", hitl=["write_file"])
    await talk.say("go")
    assert talk.question.value["plan_approval"] == {"plan": PLAN}
    results = await talk.results()
    assert status(results["w1"]) == "denied"
    assert "plan mode" in results["w1"].text
    assert status(results["l1"]) == "completed"
    await talk.answer(type="approve")
    assert talk.question.value["call_ids"] == ["w2"]
    await talk.answer(decisions=[{"tool_call_id": "w2", "type": "approve"}])
    assert (await talk.files.read("/workspace/x"))[0] == b"2"
    assert "plan mode" in scripted.requests[0].messages[0]["content"]
    assert scripted.refused == []


@pytest.mark.req("EXEC-07")
async def test_a_plan_can_be_changed_by_the_user(talk_with, scripted):
    scripted.on("go", call("request_plan_approval", {"plan": PLAN}, id="p1"), say("done"))
    talk = talk_with(mode="plan")
    await talk.say("go")
    await talk.answer(type="edit", plan="2. Read only.", message="Careful.")
    data = json.loads((await talk.results())["p1"].text)["data"]
    assert (data["approved"], data["plan"], data["message"]) == (True, "2. Read only.", "Careful.")
    assert "changed the plan" in data["note"]


@pytest.mark.req("EXEC-07")
async def test_a_refused_plan_keeps_the_gate_shut(talk_with, scripted):
    write = {"path": "/workspace/x", "content": "1"}
    scripted.on(
        "go",
        calls([("request_plan_approval", {"plan": PLAN}, "p1"),
               ("request_plan_approval", {"plan": "other"}, "p2")]),
        call("write_file", write, id="w1"),
        say("I see."),
    )  # fmt: skip
    talk = talk_with(mode="plan")
    await talk.say("go")
    assert await talk.answer(type="reject", message="Too much.") == "I see."
    results = await talk.results()
    assert status(results["p1"]) == "denied"
    assert "Too much." in results["p1"].text
    assert "one plan at a time" in results["p2"].text
    assert status(results["w1"]) == "denied"


@pytest.mark.req("EXEC-07")
async def test_the_plan_of_the_moment_is_kept_and_shown(talk_with, scripted):
    first, second = [{"content": "a"}], [{"content": "a", "status": "completed"}]
    scripted.on(
        "go",
        calls([("update_plan", {"todos": first}, "k1"), ("update_plan", {"todos": second}, "k2")]),
        say("done"),
    )
    talk = talk_with()
    await talk.say("go")
    assert (await talk.state())["todos"] == second
    assert {"type": "updated_todo_list", "todos": second} in talk.seen.events


@pytest.mark.req("H07")
async def test_a_new_message_while_a_call_waits_closes_it_and_the_call_never_runs(
    talk_with, scripted
):
    scripted.on("go", call("note", {"text": "a"}, id="k1"), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    assert await talk.say("never mind") == "echo: never mind"
    assert await notes(talk) == []
    assert "not carried out" in (await talk.results())["k1"].text
    assert scripted.refused == []


@pytest.mark.req("H07", "D06")
async def test_a_withdrawn_question_leaves_a_thread_that_goes_on(talk_with, scripted):
    scripted.on("go", BATCH, say("done"))
    talk = talk_with(tools=[note, post])
    await talk.say("go")
    await talk.settle()
    assert await talk.say("hello") == "echo: hello"
    assert len(await talk.results()) == 5
    assert scripted.refused == []


@pytest.mark.req("EXEC-20")
async def test_a_tool_that_is_gone_since_the_card_was_shown_shifts_no_answer(talk_with, scripted):
    asked = [
        ("note", {"text": "a"}, "k1"),
        ("ask_user", {"questions": [{"question": "Why?"}]}, "q"),
    ]
    scripted.on("go", calls(asked), say("done"))
    talk = talk_with(tools=[note])
    await talk.say("go")
    later = talk_with()
    later.saver, later.config = talk.saver, talk.config
    later.question, later.run_id = talk.question, talk.run_id
    await later.answer(decisions=[{"tool_call_id": "k1", "type": "approve"}])
    assert later.question.value["kind"] == "ask_user"
    assert await later.answer(answers=["Because."]) == "done"
    results = await later.results()
    assert "no tool 'note' any more" in results["k1"].text
    assert "Because." in results["q"].text
