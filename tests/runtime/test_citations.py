"""Sources come from what tools return, once each, and reach the watcher and the history."""

from __future__ import annotations

import pytest

from core.registry import Registry
from core.tooling import define_tool, source, sourced
from tests.runtime.conftest import Bench, Tools
from tests.support.scripted_turns import call, calls, say

pytestmark = pytest.mark.req("EXT-08")

BOOK = {"title": "Handbook", "url": "https://example.org/h", "snippet": "Q = v × A"}


class Sourcing(Tools):
    """Adds tools with sources to those of every test."""

    def registry(self) -> Registry:
        registry = super().registry()

        @define_tool(requires_approval=True, side_effect="write")
        def delete_cited(path: str) -> object:
            """Delete something and say where from.

            Args:
                path: what.
            """
            return sourced("gone", [source("Bin", snippet=path)])

        @define_tool()
        def cite(score: float) -> object:
            """Cite the handbook.

            Args:
                score: how well it fits.
            """
            same = source(BOOK["title"], BOOK["url"], BOOK["snippet"], score=score)
            return sourced({"flow": 12}, [same, source("Note", snippet=f"at {score:g}")])

        registry.register_agent("citing", tools=[cite, delete_cited, "lookup", "boom"])
        return registry


@pytest.fixture
def citing(bench: Bench) -> Bench:
    bench.tools = Sourcing()
    return bench


async def test_sources_of_all_tools_of_a_run_are_gathered_without_doubles(citing: Bench):
    ground = await citing.open()
    citing.scripted.play(
        calls([("cite", {"score": 0.5}, "c1"), ("cite", {"score": 0.7}, "c2")]),
        call("lookup", {"key": "k"}, id="c3"),
        say("Twelve, see https://invented.example/page and [9]."),
    )
    submitted, events = await ground.chat("flow?", agent="citing")
    [cited] = [event.data for event in events if event.type == "citations"]
    assert cited["model_only"] is False
    # The same passage with another score is the same passage; what the model wrote is no source.
    shown = [(item["title"], item.get("url"), item["snippet"]) for item in cited["items"]]
    assert sorted(shown, key=str) == sorted(
        [
            ("Handbook", BOOK["url"], BOOK["snippet"]),
            ("Note", None, "at 0.5"),
            ("Note", None, "at 0.7"),
        ],
        key=str,
    )
    *_, answer = await ground.history(submitted.session_id)
    [part] = [part for part in answer["parts"] if part["type"] == "citations"]
    assert part == {"type": "citations", "items": cited["items"], "model_only": False}


async def test_an_answer_without_a_tool_that_gave_a_source_says_so(citing: Bench):
    ground = await citing.open()
    citing.scripted.play(call("lookup", {"key": "k"}), say("See [1] https://example.org."))
    submitted, events = await ground.chat("hm?", agent="citing")
    [cited] = [event.data for event in events if event.type == "citations"]
    assert (cited["items"], cited["model_only"]) == ([], True)
    *_, answer = await ground.history(submitted.session_id)
    assert [part["type"] for part in answer["parts"]] == ["text"]


async def test_sources_from_before_a_question_are_there_after_the_answer(citing: Bench):
    ground = await citing.open()
    citing.scripted.play(
        call("cite", {"score": 1}, id="c1"),
        call("delete_cited", {"path": "/a"}, id="c2"),
        say("Done."),
    )
    submitted, events = await ground.chat("flow, then delete", agent="citing")
    token = events[-1].data["interrupt_token"]
    decision = {"type": "approve", "tool_call_id": "c2"}
    resumed = await ground.answer(submitted, token, decisions=[decision])
    more = await ground.read(resumed)
    [cited] = [event.data for event in more if event.type == "citations"]
    assert [item["title"] for item in cited["items"]] == ["Handbook", "Note", "Bin"]
