"""A conversation that outgrows the window: summarised again and again, always valid."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, texts
from tests.support.scripted_server import ScriptedServer, Seen
from tests.support.scripted_turns import Turn, call, error, say

WORDS = "the quick brown fox jumps over the lazy dog " * 8


def _turn(seen: Seen) -> Turn:
    """Call a tool, then answer; a request without tools asks for a summary."""
    if not seen.tool_names:
        return say("SUMMARY of what was said: the goal is to count foxes.")
    if seen.messages[-1]["role"] == "user":
        return call("calculate", {"expression": "1+1"})
    return say(WORDS)


@pytest.mark.req("EXEC-10", "EXEC-11", "EXEC-13", "EXEC-14", "CHAT-22", "C01")
@pytest.mark.timeout(180)
async def test_three_hundred_messages_are_summarised_twice_and_stay_valid(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    scripted.default = _turn
    async with open_served(hitl_tools="", context_limit=12_000) as served:
        first = await served.chat("Count the foxes. The budget is 17 crowns.")
        for number in range(74):
            reply = await served.chat(f"message {number}: {WORDS}", session_id=first.session_id)
            assert reply.last["type"] == "done", reply.last
        assert scripted.refused == []
        context = (await served.client.get(f"/api/sessions/{first.session_id}/context")).json()
        assert len(context["archives"]) >= 2
        kept: list[dict[str, object]] = []
        cursor: str | None = None
        while True:
            options = {"cursor": cursor} if cursor else {}
            page = await served.client.get(f"/api/chat/history/{first.session_id}", params=options)
            kept = page.json()["items"] + kept
            cursor = page.json()["next_cursor"]
            if cursor is None:
                break
        assert len(texts(kept)) == 75 * 2
        last = scripted.requests[-1].messages
        assert any("Count the foxes" in str(m["content"]) for m in last)
        assert any("/conversation_history/" in str(m["content"]) for m in last)
        [archive] = served.data_dir.rglob(f"{first.session_id}.md")
        text = archive.read_text()
        assert "message 0:" in text


@pytest.mark.req("EXEC-13", "L22")
async def test_an_overflow_is_summarised_once_and_tried_again(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    async with open_served(hitl_tools="") as served:
        scripted.default = lambda seen: say(WORDS if seen.tool_names else "SUMMARY")
        first = await served.chat("start")
        for number in range(8):
            await served.chat(f"{number} {WORDS}", session_id=first.session_id)
        longest = scripted.requests[-1].prompt_tokens

        scripted.refuse_over(
            longest,
            error(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
        )
        reply = await served.chat(f"last {WORDS}", session_id=first.session_id)
        assert reply.last["type"] == "done"
        assert len(await history(served, first.session_id)) == 20
