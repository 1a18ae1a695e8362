"""What an exception carries reaches neither model, nor events, nor history, nor log (EXT-09)."""

from __future__ import annotations

import io
import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.support.app import Reply
from tests.support.extension_folders import add, forgotten
from tests.support.logs import captured
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say

PASSWORD = "hunter2pw"
TOKENS = ("sk-abcdefghijklmnop1234", "ghp_ABCDEFGHIJKLMNOP1234", "abcdefgh.IJKLMNOP-1234")
KEY, ACME = "plain words of a key", "acme words without form"
"""Known to the process, and looking like nothing."""

LEAKY = '''
"""Everything here says too much when it fails."""

import asyncio
from contextlib import asynccontextmanager

from langchain.agents.middleware import AgentMiddleware

from extensions import ToolContext, ToolDenied, ToolFailed, define_tool, get_service, get_setting

SAID = (
    "postgresql://app:hunter2pw@db.internal:5432/x in {place}/workspaces/a.txt with "
    "sk-abcdefghijklmnop1234 ghp_ABCDEFGHIJKLMNOP1234 Bearer abcdefgh.IJKLMNOP-1234 "
    "plain words of a key, acme words without form"
)
STATE = {{"fails": ""}}


class Trouble(Exception):
    pass


def fail(where):
    if STATE["fails"] == where:
        raise Trouble(SAID)


class Store:
    def read(self):
        raise Trouble(SAID)


@asynccontextmanager
async def store(services):
    yield Store()


@define_tool()
async def leak(how: str, ctx: ToolContext):
    """Fail.

    Args:
        how: in what way.
    """
    get_setting("ACME_SECRET")
    match how:
        case "raised":
            raise Trouble(SAID)
        case "failed":
            raise ToolFailed(SAID)
        case "denied":
            raise ToolDenied(SAID)
        case "returned":
            return Trouble(SAID)
        case "listed":
            return {{"all": await asyncio.gather(leak("raised", ctx), return_exceptions=True)}}
        case "chained":
            try:
                raise Trouble(SAID)
            except Trouble as error:
                raise ValueError("outer") from error
        case "context":
            try:
                raise Trouble(SAID)
            except Trouble:
                raise ValueError("outer")
        case "group":
            raise ExceptionGroup(SAID, [Trouble(SAID), ExceptionGroup("in", [Trouble(SAID)])])
        case "notes":
            error = ValueError("outer")
            error.add_note(SAID)
            raise error
        case "exits":
            raise SystemExit(SAID)
        case "fields":
            raise Trouble({{"url": SAID, "password": ["hunter2pw"]}}, SAID)
        case "service":
            get_service("store").read()
        case "result":
            ctx.progress("with plain words of a key")
            return {{"acme words without form": ["plain words of a key", "password: open"]}}
    return "done"


@define_tool()
def leak_plainly() -> str:
    """Fail in a thread."""
    raise Trouble(SAID)


class Wraps(AgentMiddleware):
    async def awrap_tool_call(self, request, handler):
        fail("wrap_tool_call")
        return await handler(request)

    async def awrap_model_call(self, request, handler):
        fail("wrap_model_call")
        return await handler(request)

    def before_agent(self, state, runtime):
        fail("before_agent")


class View:
    def build(self, messages, system, summary):
        from extensions.policies import default_view

        fail("context_view")
        return default_view(messages, system, summary)


def before(event):
    fail("tool_call.before")
    if STATE["fails"] == "deny":
        raise ToolDenied(SAID)


def after(event):
    fail("tool_call.after")


async def request(event):
    fail("model_request.before")


def start(event):
    fail("run.before")
    if STATE["fails"] == "refuse":
        raise ToolDenied(SAID)


def build():
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    def shout() -> str:
        "Fail."
        raise Trouble(SAID)

    def ask(state):
        call = {{"name": "shout", "args": {{}}, "id": "x"}}
        return {{"messages": [AIMessage("", tool_calls=[call])]}}

    def end(state):
        fail("graph")
        return {{"messages": [AIMessage("Well.")]}}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([shout], handle_tool_errors=True))
    graph.add_node("end", end)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "tools")
    graph.add_edge("tools", "end")
    return graph


def setup(registry):
    registry.register_subgraph("graph", "A graph.", build)
    registry.register_agent("boss", delegates=["graph"])
    registry.register_service("store", store)
    registry.register_tool(leak, requires=["store"])
    registry.register_agent("plain", tools=[leak, leak_plainly], policies={{"context_view": "leaky"}})
    registry.register_agent("wrapped", tools=[leak])
    registry.register_policy("context_view", View)
    registry.register_middleware("wraps", lambda services: Wraps(), targets=["wrapped"])
    registry.register_hook("tool_call.before", before)
    registry.register_hook("tool_call.after", after)
    registry.register_hook("model_request.before", request)
    registry.register_hook("run.before", start)
'''


@dataclass
class Watched(Talk):
    """A conversation, and what the product logs meanwhile."""

    log: io.StringIO


@pytest.fixture
async def talk(open_served: Opener, tmp_path: Path):
    """The product with the leaky extension, and what it logged in `log`."""
    (tmp_path / ".env").write_text(f"ACME_SECRET={ACME}\n")
    with forgotten():
        add(tmp_path / "mine", "leaky", LEAKY.format(place=tmp_path))
        settings: dict[str, Any] = {
            "extensions_path": (tmp_path / "mine",),
            "openai_api_key": KEY,
            "env_file": tmp_path / ".env",
            "log_level": "DEBUG",
        }
        async with open_served(**settings) as served:
            with captured() as log:
                logging.getLogger().setLevel(logging.DEBUG)
                yield Watched(served.served, served.client, served.data_dir, log)


def state() -> dict[str, str]:
    return sys.modules["extensions.leaky.extension"].STATE


async def sinks(talk: Watched, reply: Reply, scripted: ScriptedServer) -> dict[str, str]:
    """Return everything that anybody can read of a run, by where."""
    history = (await talk.client.get(f"/api/chat/history/{reply.session_id}")).json()
    whole: list[Any] = []
    for item in history["items"]:
        for part in item["parts"]:
            if part["type"] == "tool_call":
                path = f"/api/messages/{item['id']}/tool-results/{part['tool_call_id']}"
                whole.append((await talk.client.get(path)).json())
    run = (await talk.client.get(f"/api/sessions/{reply.session_id}/runs")).json()
    return {
        "model": json.dumps([one.body for one in scripted.requests]),
        "events": json.dumps([one.data for one in reply.frames]),
        "history": json.dumps(history),
        "results": json.dumps(whole),
        "runs": json.dumps(run),
        "log": talk.log.getvalue(),
    }


def assert_silent(found: dict[str, str], data_dir: Path) -> None:
    for where, text in found.items():
        for secret in (PASSWORD, *TOKENS, KEY, ACME, f"{data_dir}/workspaces"):
            assert secret not in text, (where, secret)
        if where != "log":
            assert "workspaces/a.txt" not in text, where


FAILURES = [
    *("raised", "failed", "denied", "returned", "listed", "chained", "context", "group"),
    *("notes", "exits", "fields", "service"),
]


@pytest.mark.req("EXT-09", "OPS-06")
@pytest.mark.parametrize("how", FAILURES)
async def test_what_a_tools_exception_carries_is_nowhere_to_be_read(
    talk: Watched, scripted: ScriptedServer, how: str
) -> None:
    scripted.play(call("leak", {"how": how}), say("I see."))
    reply = await talk.chat("go", agent="plain")
    assert reply.last["status"] == "success"
    [result] = reply.of("tool_result")
    if how == "listed":
        assert json.loads(result["content"]) == {"all": ["(Trouble)"]}
    else:
        assert result["error"]
    found = await sinks(talk, reply, scripted)
    assert_silent(found, talk.data_dir)
    if how not in ("failed", "denied", "listed"):
        # The stack is there, for whoever runs the server.
        assert reply.last["trace_id"] in found["log"]
        assert "tool failed unexpectedly" in found["log"]
        assert "db.internal" not in found["model"] + found["events"] + found["results"]


@pytest.mark.req("EXT-09", "EXT-10", "EXT-07", "EXT-04")
@pytest.mark.parametrize(
    ("fails", "agent", "end"),
    [
        ("", "plain", "done"),
        ("tool_call.before", "plain", "hook_failed"),
        ("tool_call.after", "plain", "hook_failed"),
        ("model_request.before", "plain", "hook_failed"),
        ("run.before", "plain", "hook_failed"),
        ("deny", "plain", "done"),
        ("refuse", "plain", "hook_refused"),
        ("context_view", "plain", "policy_failed"),
        ("wrap_tool_call", "wrapped", "done"),
        ("wrap_model_call", "wrapped", "middleware_failed"),
        ("before_agent", "wrapped", "middleware_failed"),
    ],
)
async def test_what_exceptions_of_hooks_policies_and_middleware_carry_is_nowhere_to_be_read(
    talk: Watched, scripted: ScriptedServer, fails: str, agent: str, end: str
) -> None:
    state()["fails"] = fails
    scripted.play(call("leak", {"how": "none"}), say("I see."))
    reply = await talk.chat("go", agent=agent)
    assert reply.last.get("code", reply.last["type"]) == end
    assert_silent(await sinks(talk, reply, scripted), talk.data_dir)


@pytest.mark.req("EXT-09", "OPS-06")
async def test_a_plain_tools_exception_in_a_thread_is_masked_too(
    talk: Watched, scripted: ScriptedServer
) -> None:
    scripted.play(call("leak_plainly"), say("I see."))
    reply = await talk.chat("go", agent="plain")
    assert_silent(await sinks(talk, reply, scripted), talk.data_dir)


@pytest.mark.req("EXT-09", "OPS-06")
async def test_a_result_keeps_what_only_looks_secret_and_loses_what_is_known_to_be(
    talk: Watched, scripted: ScriptedServer
) -> None:
    scripted.play(call("leak", {"how": "result"}), say("I see."))
    reply = await talk.chat("go", agent="plain")
    [result] = reply.of("tool_result")
    assert json.loads(result["content"]) == {"***": ["***", "password: open"]}
    assert reply.of("progress")[0]["message"] == "with ***"
    assert_silent(await sinks(talk, reply, scripted), talk.data_dir)


@pytest.mark.req("EXT-09", "EXEC-41")
@pytest.mark.parametrize("fails", ["", "graph"])
@pytest.mark.parametrize("agent", ["graph", "boss"])
async def test_what_exceptions_within_a_whole_graph_carry_is_masked(
    talk: Watched, scripted: ScriptedServer, fails: str, agent: str
) -> None:
    state()["fails"] = fails
    scripted.play(call("delegate", {"agent": "graph", "task": "go"}), say("I see."))
    reply = await talk.chat("go", agent=agent)
    [result] = [one for one in reply.of("tool_result") if one["tool"] == "shout"]
    assert "Trouble" in result["error"]
    assert reply.last["type"] == ("error" if fails and agent == "graph" else "done")
    assert_silent(await sinks(talk, reply, scripted), talk.data_dir)
