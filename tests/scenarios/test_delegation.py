"""An agent gives tasks to others: they work side by side, are seen, asked, counted and kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, whole
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import calls, say

HOUSE = """
def setup(registry):
    registry.register_agent(
        "chief", "Leads.", "You lead.", ["calculate", "write_file"],
        delegates=["researcher"], label="Chief",
    )
    registry.register_agent(
        "researcher", "Finds things out.", "You research.",
        ["now", "calculate", "write_file", "ask_user"], label="Researcher",
    )
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        add(tmp_path / "ext", "house", HOUSE)
        yield tmp_path / "ext"


@pytest.mark.req("EXEC-41", "EXT-04")
async def test_two_tasks_are_done_side_by_side_and_their_text_stays_inside(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    scripted.on(
        "compare",
        calls(
            [
                ("delegate", {"agent": "researcher", "task": "look at the north"}, "call_n"),
                ("delegate", {"agent": "researcher", "task": "look at the south"}, "call_s"),
            ]
        ),
        say("North wins."),
    )
    scripted.on("the north", calls([("now", {}, "call_1")]), say("The north is cold."))
    scripted.on("the south", calls([("now", {}, "call_1")]), say("The south is warm."))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("compare", agent="chief")
        for e in whole(reply):
            print(e)
        print(await history(served, reply.session_id))
        assert reply.text == "North wins."
