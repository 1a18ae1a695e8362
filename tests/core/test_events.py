"""The events are the contract of `/api/chat`: these names and fields never change."""

import typing
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from core import events

CONTRACT = {
    "agent_start": {"agent", "cn_agent", "agent_id"},
    "thinking": {"message", "cn_agent"},
    "thinking_token": {"content", "message_id", "agent_id"},
    "executing": {"message", "cn_agent", "tools", "cn_tools"},
    "tool_call": {"tool", "cn_tool", "args", "agent_id", "tool_call_id"},
    "tool_result": {
        "tool", "cn_tool", "content", "error", "agent_id", "tool_call_id", "duration_ms",
    },
    "token": {"content", "message_id"},
    "updated_todo_list": {"todos"},
    "progress": {"message", "fraction"},
    "interrupt": {"interrupt_token", "message", "tool_approval", "ask_user", "plan_approval"},
    "citations": {"items", "model_only"},
    "message_reset": {"message_id", "reason"},
    "user_message": {"message_id", "content", "via"},
    "interrupt_resolved": {"interrupt_token", "decisions", "by"},
    "model_fallback": {"from", "to", "reason"},
    "component": {"component_type", "component_id", "data"},
    "artifact": {"artifact_id", "kind", "title", "version"},
    "agent_done": {"agent", "cn_agent", "agent_id", "duration_ms", "progress", "context_tokens"},
    "agent_error": {"agent", "cn_agent", "agent_id", "message", "duration_ms"},
    "done": {"status", "duration_ms", "usage"},
    "error": {"message", "code", "retry_after"},
}  # fmt: skip

OF_SUB_RUNS = {"executing": {"agent_id"}, "progress": {"agent_id"}, "interrupt": {"agent_id"}}
"""Fields that only events of sub-runs have."""


def kinds() -> list[type]:
    union, _ = typing.get_args(events.Event)
    return list(typing.get_args(union))


@pytest.mark.req("CHAT-06", "EXEC-41")
def test_types_and_fields_are_the_contract():
    found = {
        kind.model_fields["type"].default: {
            field.serialization_alias or name
            for name, field in kind.model_fields.items()
            if name != "type"
        }
        for kind in kinds()
    }
    assert found == {
        kind: fields | OF_SUB_RUNS.get(kind, set()) for kind, fields in CONTRACT.items()
    }
    plain = events.dump(events.Progress(message="m"))
    assert plain == {"type": "progress", "message": "m", "fraction": None}


@pytest.mark.req("CHAT-06")
def test_event_goes_to_json_and_back_unchanged_under_its_wire_names():
    event = events.ModelFallback(**{"from": "a", "to": "b", "reason": "busy"})
    data = events.dump(event)
    assert data == {"type": "model_fallback", "from": "a", "to": "b", "reason": "busy"}
    assert events.EVENT_ADAPTER.validate_python(data) == event


@pytest.mark.req("CHAT-06")
def test_unknown_type_and_unknown_field_are_refused():
    with pytest.raises(ValidationError):
        events.EVENT_ADAPTER.validate_python({"type": "tokens", "content": "x"})
    with pytest.raises(ValidationError):
        events.Token(content="x", message_id="m", extra="y")


@pytest.mark.req("CHAT-05")
@pytest.mark.parametrize("trace", ["t-1", None])
def test_frame_carries_the_common_fields_and_the_trace_where_there_is_one(trace):
    stored = events.StoredEvent(
        session_id="s", run_id="r", seq=3, at=datetime(2026, 1, 1, tzinfo=UTC), trace_id=trace,
        data=events.dump(events.Token(content="hi", message_id="m")),
    )  # fmt: skip
    common = {"type": "token", "session_id": "s", "run_id": "r", "seq": 3}
    expected = common | ({"trace_id": trace} if trace else {})
    assert stored.frame() == expected | {"content": "hi", "message_id": "m"}
