"""Views built step by step are the views built at once, and keep what did not change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from nodes.view import TURN, Views, build_view
from tests.nodes.histories import histories


@pytest.mark.req("EXEC-12", "P10", "C01")
@given(messages=histories())
def test_a_view_that_grows_equals_one_that_is_built_at_once(messages: list[AnyMessage]) -> None:
    views = Views()
    summary: dict[str, Any] = {}
    for end in range(len(messages) + 1):
        if end == len(messages) // 2 and end:
            summary = {"text": "S", "path": "/p", "shortened_upto": messages[end - 1].id}
        assert views.build(messages[:end], "rules", summary) == build_view(
            messages[:end], "rules", summary
        )


@pytest.mark.req("EXEC-12")
def test_messages_of_earlier_turns_stay_the_same_objects() -> None:
    messages: list[AnyMessage] = []
    for n in range(3):
        messages += [HumanMessage(f"a{n}", id=f"h{n}"), HumanMessage(f"b{n}", id=f"i{n}")]
        call = {"id": "again", "name": "now", "args": {}, "type": "tool_call"}
        messages.append(AIMessage("", id=f"t{n}", tool_calls=[call]))
        mark = {TURN: f"t{n}"}
        messages.append(ToolMessage("r", tool_call_id="again", id=f"r{n}", additional_kwargs=mark))
    views = Views()
    first = views.build(messages[:8], "rules")
    second = views.build(messages, "rules")
    covered = first[:-2]
    assert all(one is other for one, other in zip(covered, second, strict=False))


@pytest.mark.req("C01", "P10")
def test_a_result_that_comes_late_finds_its_turn() -> None:
    call = {"id": "c", "name": "now", "args": {}, "type": "tool_call"}
    late = ToolMessage("late", tool_call_id="c", id="r", additional_kwargs={TURN: "t1"})
    messages: list[AnyMessage] = [
        HumanMessage("a", id="h1"),
        AIMessage("", id="t1", tool_calls=[call]),
        HumanMessage("b", id="h2"),
        AIMessage("", id="t2", tool_calls=[call]),
    ]
    views = Views()
    views.build(messages, "rules")
    grown = views.build([*messages, late], "rules")
    assert grown == build_view([*messages, late], "rules")
    assert next(m.content for m in grown if isinstance(m, ToolMessage)) == "late"


@pytest.mark.req("L23")
def test_two_user_messages_with_an_image_stay_blocks() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    both = [HumanMessage("look", id="h1"), HumanMessage([image], id="h2")]
    [_, one] = build_view(both, "rules")
    assert one.content == [{"type": "text", "text": "look"}, image]
