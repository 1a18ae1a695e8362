"""The list that is sent to a model is valid, whatever is stored."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from nodes.results import closing_results
from nodes.state import calls_of
from nodes.view import build_view, group, shorten
from tests.nodes.histories import fault_of, histories

SYSTEM = "Be brief."


def calls(*ids: str, number: str = "t") -> AIMessage:
    return AIMessage("", id=number, tool_calls=[{"id": i, "name": "add", "args": {}} for i in ids])


def result(call_id: str, content: str = "ok", number: str | None = None) -> ToolMessage:
    return ToolMessage(content, tool_call_id=call_id, id=number or f"r-{call_id}")


@pytest.mark.req("P10", "C01")
@settings(max_examples=400, deadline=None)
@given(histories(), st.data())
def test_every_history_gives_a_valid_view_at_every_cut(history, data):
    cut = data.draw(st.integers(0, len(history)), label="cut")
    mark = data.draw(st.sampled_from([None, *(m.id for m in history)]), label="shortened_upto")
    summary = data.draw(
        st.sampled_from([{}, {"text": "They talked.", "path": "/conversation_history/s.md"}])
    )
    stored = copy.deepcopy(history)
    view = build_view(history[cut:], SYSTEM, summary | {"shortened_upto": mark})
    assert fault_of(view) is None
    assert history == stored


@pytest.mark.req("P10")
@settings(max_examples=200, deadline=None)
@given(histories())
def test_two_views_of_one_state_never_differ(history):
    summary = {"shortened_upto": history[-1].id} if history else {}
    assert build_view(history, SYSTEM, summary) == build_view(history, SYSTEM, summary)


@pytest.mark.req("P10", "D06")
@settings(max_examples=200, deadline=None)
@given(histories(), st.text(min_size=1, max_size=5).filter(str.strip))
def test_a_cancelled_history_that_was_closed_goes_on_valid(history, text):
    closed = [*history, *closing_results(history)]
    after = build_view([*closed, HumanMessage(text, id="next")], SYSTEM)
    assert fault_of(after) is None
    assert closing_results(closed) == []
    assert after[-1].text.endswith(text)


@pytest.mark.req("P10")
@settings(max_examples=200, deadline=None)
@given(histories())
def test_no_call_and_no_spoken_text_is_lost(history):
    view = build_view(history, SYSTEM)
    asked = sum(len(calls_of(m)) for m in history if isinstance(m, AIMessage))
    assert sum(isinstance(m, ToolMessage) for m in view) == asked
    said = [m.text for m in history if not isinstance(m, ToolMessage) and m.text.strip()]
    whole = "\n".join(m.text for m in view)
    assert all(text in whole for text in said)


@pytest.mark.req("C01")
def test_a_late_result_stands_behind_its_own_turn():
    history = [
        HumanMessage("a", id="u1"),
        calls("k1", "k2", number="t1"),
        result("k1", "one"),
        HumanMessage("b", id="u2"),
        AIMessage("B", id="t2"),
        HumanMessage("c", id="u3"),
        calls("k3", number="t3"),
        result("k3", "three"),
        result("k2", "two"),
    ]
    for cut in range(len(history) + 1):
        assert fault_of(build_view(history[cut:], SYSTEM)) is None
    view = build_view(history, SYSTEM)
    assert [(m.type, m.text) for m in view[2:5]] == [("ai", ""), ("tool", "one"), ("tool", "two")]
    assert view[-1].text == "three"
    late_only = build_view(history[-2:], SYSTEM)
    assert [m.type for m in late_only] == ["system"]


def test_results_stand_in_call_order_whatever_order_they_came_in():
    history = [HumanMessage("a", id="u"), calls("k1", "k2", "k3")]
    history += [result("k3"), result("k1"), result("k2")]
    shown = [m.tool_call_id for m in build_view(history, SYSTEM) if isinstance(m, ToolMessage)]
    assert shown == ["k1", "k2", "k3"]


def test_the_first_of_two_results_counts():
    history = [HumanMessage("a", id="u"), calls("k1"), result("k1", "first", "r1")]
    history.append(result("k1", "second", "r2"))
    assert [m.text for m in build_view(history, SYSTEM)][-1] == "first"


def test_a_call_without_result_gets_one_that_says_so():
    view = build_view([HumanMessage("a", id="u"), calls("k1")], SYSTEM)
    assert json.loads(view[-1].text)["status"] == "failed"
    assert view[-1].status == "error"


@pytest.mark.req("L15")
def test_broken_arguments_go_out_as_an_object():
    turn = AIMessage(
        "",
        id="t",
        tool_calls=[],
        invalid_tool_calls=[{"id": "k1", "name": "add", "args": '{"a":', "error": "cut"}],
    )
    view = build_view([HumanMessage("a", id="u"), turn, result("k1", "not JSON")], SYSTEM)
    assert view[2].tool_calls[0]["args"] == {}
    assert view[2].invalid_tool_calls == []
    assert view[3].tool_call_id == "k1"


def test_the_same_call_id_in_two_turns_is_told_apart():
    history = [HumanMessage("a", id="u"), calls("k1", number="t1"), result("k1", "one", "r1")]
    history += [calls("k1", number="t2"), result("k1", "two", "r2")]
    view = build_view(history, SYSTEM)
    assert fault_of(view) is None
    assert [m.text for m in view if isinstance(m, ToolMessage)] == ["one", "two"]


@pytest.mark.req("EXEC-12")
def test_what_was_sent_before_stays_the_beginning_of_what_is_sent_next():
    history = [HumanMessage("a", id="u"), calls("k1"), result("k1", "x" * 9_000)]
    first = build_view(history, SYSTEM)
    history += [AIMessage("done", id="t2"), HumanMessage("more", id="u2")]
    second = build_view(history, SYSTEM)
    assert second[: len(first)] == first
    assert all(a is b for a, b in zip(first[1:], second[1:], strict=False))


@pytest.mark.req("EXEC-12")
def test_a_shortened_result_says_how_to_read_the_whole():
    content = json.dumps({"status": "completed", "data": "A" * 900 + "Z" * 900, "meta": {}})
    body = json.loads(shorten(result("k1", content, "r1")).text)
    assert body["data"].startswith("AAA")
    assert body["data"].endswith("ZZZ")
    assert len(body["data"]) < 900
    assert body["meta"] == {
        "whole": "read_file /conversation_history/results/r1.txt",
        "shortened_from": 1_800,
    }


def test_the_summary_comes_as_the_users_side_and_the_system_message_stays_alone():
    summary = {"text": "Earlier: 7.", "path": "/conversation_history/s.md", "goal": "Count."}
    view = build_view([HumanMessage("next", id="u")], SYSTEM, summary)
    assert [type(m) for m in view] == [SystemMessage, HumanMessage]
    for part in ("Earlier: 7.", "/conversation_history/s.md", "Count.", "next"):
        assert part in view[1].text


@pytest.mark.req("P10")
def test_a_turn_and_all_its_results_are_one_group():
    history = [HumanMessage("a", id="u"), calls("k1", "k2"), result("k1"), HumanMessage("b")]
    history.append(result("k2"))
    groups = group(history)
    assert [len(list(one.members())) for one in groups] == [1, 3, 1]
    assert not any(one.pending for one in groups)
    assert group(history[:3])[1].pending


def test_the_check_of_these_tests_finds_what_is_wrong():
    system, user, turn = SystemMessage(SYSTEM), HumanMessage("a"), calls("k1")
    assert fault_of([user]) is not None
    assert fault_of([system, turn, result("k1")]) is not None
    assert fault_of([system, user, turn]) is not None
    assert fault_of([system, user, turn, user]) is not None
    assert fault_of([system, user, result("k1")]) is not None
    assert fault_of([system, user, turn, result("k2")]) is not None
    assert fault_of([system, user, user]) is not None
    assert fault_of([system, user, turn, result("k1"), system]) is not None
    assert fault_of([system, user, turn, result("k1"), turn, result("k1")]) is not None
    assert fault_of([system, user, turn, result("k1")]) is None
