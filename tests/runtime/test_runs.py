"""Runs from the message to the end of the stream, as whole lists of events."""

from __future__ import annotations

import pytest

from core.types import RunStatus
from tests.runtime.conftest import Ground
from tests.support.events import snapshot_of
from tests.support.scripted_turns import say


@pytest.mark.req("CHAT-06", "EXEC-37")
async def test_a_plain_answer_is_streamed_stored_and_ends_with_done(ground: Ground):
    ground.scripted.play(say("Hello there."))
    submitted, events = await ground.chat("hi")
    assert snapshot_of(events) == [
        {"type": "user_message", "message_id": "<message>", "content": "hi", "via": "chat"},
        {
            "type": "agent_start",
            "agent": "assistant",
            "cn_agent": "assistant",
            "agent_id": "assistant",
        },
        {"type": "thinking", "message": "Thinking", "cn_agent": "assistant"},
        {"type": "token", "content": "Hello there.", "message_id": "<message>"},
        {"type": "citations", "items": [], "model_only": True},
        {
            "type": "agent_done",
            "agent": "assistant",
            "cn_agent": "assistant",
            "agent_id": "assistant",
            "duration_ms": "<ms>",
            "progress": "1/1",
            "context_tokens": "<tokens>",
        },
        {"type": "done", "status": "success", "duration_ms": "<ms>", "usage": "<usage>"},
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert await ground.status(submitted.run_id) is RunStatus.SUCCESS
    history = await ground.history(submitted.session_id)
    assert [(one["role"], one["parts"]) for one in history] == [
        ("user", [{"type": "text", "text": "hi"}]),
        ("assistant", [{"type": "text", "text": "Hello there."}]),
    ]
