"""A run is known by the message it began with, also after a summary took that message away."""

from __future__ import annotations

import pytest

from runtime.thread import has_begun, messages_in
from tests.support.scripted_turns import call, say


@pytest.mark.req("EXEC-10", "EXEC-13", "P2")
async def test_a_run_whose_message_was_summarised_does_not_begin_again(talk_with, scripted):
    talk = talk_with(window=3_000)
    words = "the quick brown fox " * 60
    turns = iter([call("calculate", {"expression": f"{n}+1"}, text=words) for n in range(8)])
    scripted.default = lambda seen: (
        next(turns, say("End.")) if seen.tool_names else say("SUMMARY of it")
    )
    assert await talk.say("do much") == "End."
    snapshot = await talk.graph.aget_state(talk.config)
    began = snapshot.values["loop"]["began"]
    assert began not in {message.id for message in messages_in(snapshot)}
    assert has_begun(snapshot, began)
    assert not has_begun(snapshot, "another")
    assert scripted.refused == []
