"""LangChain's ready-made middleware works around our loop as it does around its own (EXT-07)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, results, shown, texts, types
from tests.support.app import eventually
from tests.support.extension_folders import add, forgotten
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, error, say

HEAD = """
from langchain.agents import middleware as ready
from langchain.agents.middleware import AgentMiddleware, ModelResponse, hook_config
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from extensions import define_tool, get_service, ToolFailed

@define_tool(group="test", idempotent=True)
def double(number: int) -> int:
    \"\"\"Double a number.

    Args:
        number: what to double.
    \"\"\"
    return number * 2

"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path / "ext"


def wrapped(folder: Path, code: str) -> dict[str, str]:
    """Add an extension and return the setting that loads it."""
    add(folder, "wrapped", HEAD + code)
    return {"gw_extensions_path": str(folder)}


def counter(more: str = "") -> str:
    """Return an extension with an agent that may call one tool in a run."""
    return f"""
def setup(registry):
    registry.register_agent("counter", "Counts.", "Count.", [double])
    registry.register_middleware(
        "limit",
        lambda services: ready.ToolCallLimitMiddleware(run_limit=1, {more}),
        targets=["counter"],
    )
"""


@pytest.mark.req("EXT-07", "MODEL-02")
async def test_model_retry_asks_again_and_the_answer_is_shown_once(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    settings = wrapped(
        folder,
        """
def setup(registry):
    registry.register_middleware(
        "model_retry",
        lambda services: ready.ModelRetryMiddleware(max_retries=2, initial_delay=0.01),
        harmless=True,
    )
""",
    )
    scripted.on_each("hello", error(400, "no"), error(400, "no"), say("Third time lucky."))
    async with open_served(**settings) as served:
        reply = await served.chat("hello")
        assert shown(reply) == reply.text == "Third time lucky."
        assert reply.last["type"] == "done", reply.last
        assert len(scripted.requests) == 3
        assert texts(await history(served, reply.session_id)) == [
            ("user", "hello"),
            ("assistant", "Third time lucky."),
        ]


@pytest.mark.req("EXT-07", "CHAT-02")
async def test_pii_is_taken_out_of_what_is_shown_kept_and_sent(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    settings = wrapped(
        folder,
        """
def setup(registry):
    registry.register_middleware(
        "pii",
        lambda services: ready.PIIMiddleware(
            "email", strategy="redact", apply_to_input=True, apply_to_output=True
        ),
    )
""",
    )
    scripted.on("write to", say("I wrote to anna@example.org today."))
    async with open_served(**settings) as served:
        reply = await served.chat("write to bob@example.org")
        assert shown(reply) == reply.text == "I wrote to [REDACTED_EMAIL] today."
        assert "anna@example" not in str(reply.frames)
        kept = await history(served, reply.session_id)
        assert texts(kept)[-1] == ("assistant", "I wrote to [REDACTED_EMAIL] today.")
        await served.chat("and again", session_id=reply.session_id)
        sent = str([seen.body for seen in scripted.requests])
        assert "bob@example.org" not in sent
        assert "anna@example" not in sent


@pytest.mark.req("EXT-07")
async def test_a_tool_call_limit_ends_the_run_with_an_answer(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    settings = wrapped(folder, counter('exit_behavior="end"'))
    scripted.on("count", call("double", {"number": 1}), call("double", {"number": 2}))
    async with open_served(**settings) as served:
        reply = await served.chat("count", agent="counter")
        assert reply.last["type"] == "done", reply.last
        assert "limit" in shown(reply)
        kept = await history(served, reply.session_id)
        assert list(results(kept).values()) == ["completed", "failed"]
        assert types(reply).count("tool_call") == types(reply).count("tool_result") == 2
        assert len(scripted.requests) == 2
        again = await served.chat("and on", agent="counter", session_id=reply.session_id)
        assert again.last["type"] == "done", again.last
        assert [seen.refused for seen in scripted.requests if seen.refused] == []


@pytest.mark.req("EXT-07")
async def test_a_turn_whose_calls_a_middleware_answered_all_goes_back_to_the_model(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    settings = wrapped(folder, counter())
    one, two = call("double", {"number": 1}), call("double", {"number": 2})
    scripted.on("count", one, two, say("One is enough."))
    async with open_served(**settings) as served:
        reply = await served.chat("count", agent="counter")
        assert reply.last["type"] == "done", reply.last
        assert shown(reply) == "One is enough."
        kept = await history(served, reply.session_id)
        assert list(results(kept).values()) == ["completed", "failed"]
        assert types(reply).count("tool_call") == types(reply).count("tool_result") == 2
        assert [seen.refused for seen in scripted.requests if seen.refused] == []


@pytest.mark.req("EXT-07", "EXEC-30", "D01")
async def test_a_turn_that_may_still_change_is_judged_after_a_restart(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    settings = wrapped(
        folder,
        """
import asyncio
SEEN = []

class Slow(AgentMiddleware):
    async def aafter_model(self, state, runtime):
        turn = state["messages"][-1]
        SEEN.append(turn.id)
        if len(SEEN) == 1:
            await asyncio.Event().wait()
        return {"messages": [AIMessage(turn.text.replace("raw", "final"), id=turn.id)]}

def setup(registry):
    registry.register_middleware("slow", lambda services: Slow())
""",
    )
    scripted.on("go", say("The raw text."))

    def seen() -> list[str]:
        return sys.modules["extensions.wrapped.extension"].SEEN

    async with open_served(**settings, gw_drain_seconds=0) as served:
        fields = {"message": "go"}
        async with served.client.stream("POST", "/api/chat", data=fields) as response:
            run_id, session_id = response.headers["x-run-id"], response.headers["x-session-id"]
            await eventually(lambda: len(seen()) == 1)
    async with open_served(**settings) as served:
        reply = await served.follow(f"/api/runs/{run_id}/events")
        assert reply.last["type"] == "done", reply.last
        assert "raw" not in str(reply.frames)
        assert shown(reply) == "The final text."
        assert len(scripted.requests) == 1
        assert len(set(seen())) == 1
        kept = await history(served, session_id)
        assert texts(kept) == [("user", "go"), ("assistant", "The final text.")]
