"""Foreign graphs of less usual shapes: nothing doubled, nothing counted twice, every end named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.errors import ConfigError
from core.settings import load_settings
from server.bootstrap import checked
from tests.scenarios.conftest import Opener
from tests.scenarios.whole import history, results, texts, types
from tests.support.app import Reply, frames_of
from tests.support.extension_folders import add, forgotten
from tests.support.foreign_graphs import graph_code
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import calls, say


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place for extensions that are forgotten after the test."""
    with forgotten():
        yield tmp_path / "ext"


REPEATS = """
async def more(state):
    return {"messages": state["messages"] + [await model().ainvoke(state["messages"])]}

def nested():
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent([]).compile())
    graph.add_edge(START, "agent")
    return graph

def setup(registry):
    registry.register_subgraph("nested", "An agent within.", nested)
    registry.register_subgraph("more", "Writes all again.", lambda: line(("more", more)))
"""


@pytest.mark.req("EXEC-04", "EXEC-14", "P1")
@pytest.mark.parametrize("agent", ["nested", "more"])
async def test_messages_that_a_step_writes_again_are_told_once(
    open_served: Opener, scripted: ScriptedServer, folder: Path, agent: str
) -> None:
    add(folder, "repeats", graph_code(scripted, REPEATS))
    async with open_served(extensions_path=str(folder)) as served:
        first = await served.chat("one", agent=agent)
        second = await served.chat("two", session_id=first.session_id)
        assert (first.text, second.text) == ("echo: one", "echo: two")
        assert types(second) == types(first)
        assert texts(await history(served, first.session_id)) == [
            ("user", "one"),
            ("assistant", "echo: one"),
            ("user", "two"),
            ("assistant", "echo: two"),
        ]


CAREFUL = '''
@tool
def double(number: int) -> int:
    """Double a number."""
    return number * 2 if interrupt("Really?") == "yes" else 0

def setup(registry):
    registry.register_subgraph("careful", "Asks first.", lambda: agent([double]))
'''


@pytest.mark.req("EXEC-04", "EXEC-14", "EXEC-22")
async def test_a_turn_without_text_is_counted_once_and_its_result_told_in_order(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "careful", graph_code(scripted, CAREFUL))
    scripted.on("double", calls([("double", {"number": 4}, "c")]), say("It is 8."))
    async with open_served(extensions_path=str(folder)) as served:
        asked = await served.chat("double 4", agent="careful")
        assert types(asked)[-3:] == ["executing", "tool_call", "interrupt"]
        reply = await served.resume(asked, answers=["yes"])
        assert types(reply) == [
            "interrupt_resolved",
            "thinking",
            "tool_result",
            "token",
            "citations",
            "agent_done",
            "done",
        ]
        [first, second] = [seen.prompt_tokens for seen in scripted.requests]
        assert reply.last["usage"]["input_tokens"] == first + second
        assert results(await history(served, asked.session_id)) == {"c": "completed"}


NAMED_LATE = '''
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

class NamedLate(BaseChatModel):
    """Streams under LangChain's id and names its answer in the last piece."""

    _llm_type = "late"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        use = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        for piece in (
            AIMessageChunk(content="Good ", usage_metadata=use),
            AIMessageChunk(content="day.", usage_metadata={**use, "input_tokens": 0}),
            AIMessageChunk(content="", id="resp_1"),
        ):
            chunk = ChatGenerationChunk(message=piece)
            if run_manager is not None:
                await run_manager.on_llm_new_token(piece.text, chunk=chunk)
            yield chunk

async def think(state):
    return {"messages": [await NamedLate().ainvoke(state["messages"])]}

def setup(registry):
    registry.register_subgraph("late", "Names itself late.", lambda: line(("think", think)))
'''


def shown(reply: Reply) -> dict[str, str]:
    """Return what a watcher has on the screen at the end, by message."""
    text: dict[str, str] = {}
    for frame in reply.frames:
        if frame.type == "token":
            message_id = frame.data["message_id"]
            text[message_id] = text.get(message_id, "") + frame.data["content"]
        elif frame.type == "message_reset":
            text.pop(frame.data["message_id"], None)
    return text


@pytest.mark.req("EXEC-04", "EXEC-14", "EXEC-37")
async def test_an_answer_that_is_named_at_its_end_is_shown_and_counted_once(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "late", graph_code(scripted, NAMED_LATE))
    async with open_served(extensions_path=str(folder)) as served:
        reply = await served.chat("hi", agent="late")
        [_, answer] = await history(served, reply.session_id)
        assert shown(reply) == {answer["id"]: "Good day."}
        usage = reply.last["usage"]
        # Pieces of usage add up.
        assert (usage["input_tokens"], usage["output_tokens"]) == (5, 4)


ENDS = '''
import psycopg

@tool
def note(text: str) -> str:
    """Note a text."""
    return f"noted {text}"

def quiet():
    graph = line(("think", think), ("tools", ToolNode([note])))
    return graph

async def think(state):
    return {"messages": [await model().bind_tools([note]).ainvoke(state["messages"])]}

def database(state):
    raise psycopg.OperationalError("connection to server at secret.example failed")

def gives_up(state):
    raise asyncio.CancelledError

async def listed(state):
    from langgraph.types import Command
    return [Command(update={"messages": [AIMessage("One.")]}),
            Command(update={"messages": [AIMessage("Two.")]})]

def structured(state):
    return {"messages": [AIMessage(str(interrupt({"send": 1})["approved"]))]}

def setup(registry):
    registry.register_subgraph("quiet", "Ends with a tool.", quiet)
    registry.register_subgraph("database", "Has its own.", lambda: line(("a", database)))
    registry.register_subgraph("gives_up", "Cancels itself.", lambda: line(("a", gives_up)))
    registry.register_subgraph("listed", "Writes twice.", lambda: line(("a", listed)))
    registry.register_subgraph("structured", "Wants a form.", lambda: line(("a", structured)))
'''


@pytest.mark.req("EXEC-04", "EXEC-39", "P8")
async def test_every_end_of_a_foreign_graph_is_named_for_what_it_is(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "ends", graph_code(scripted, ENDS))
    scripted.on("note", calls([("note", {"text": "this"}, "n")]))
    async with open_served(extensions_path=str(folder)) as served:
        quiet = await served.chat("note this", agent="quiet")
        assert quiet.last["status"] == "success"
        assert results(await history(served, quiet.session_id)) == {"n": "completed"}
        for agent in ("database", "gives_up"):
            failed = await served.chat("go", agent=agent)
            assert failed.last["code"] == "graph_failed"
            assert "secret" not in str(failed.body) + str(failed.last)
            assert types(failed).count("thinking") == 1
        listed = await served.chat("go", agent="listed")
        assert sorted(shown(listed).values()) == ["One.", "Two."]


@pytest.mark.req("EXEC-04", "EXEC-22")
@pytest.mark.parametrize(
    ("answer", "code"), [('{"approved": "yes"}', None), ("yes", "graph_failed")]
)
async def test_an_interrupt_that_asks_for_more_than_text_takes_json(
    open_served: Opener, scripted: ScriptedServer, folder: Path, answer: str, code: str | None
) -> None:
    add(folder, "ends", graph_code(scripted, ENDS))
    async with open_served(extensions_path=str(folder)) as served:
        asked = await served.chat("go", agent="structured")
        [question] = asked.last["ask_user"]["questions"]
        assert '{"send": 1}' in question["question"]
        assert "JSON" in question["question"]
        reply = await served.resume(asked, answers=[answer])
        assert reply.last.get("code") == code
        assert code or reply.text == "yes"


SIDE_BY_SIDE = """
def done(state):
    return {"messages": [AIMessage("Done beside.")]}

async def hangs(state):
    await asyncio.Event().wait()

def build():
    graph = StateGraph(MessagesState)
    for name, node in (("done", done), ("hangs", hangs)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph

def setup(registry):
    registry.register_subgraph("beside", "Does two things.", build)
"""


@pytest.mark.req("EXEC-04", "CHAT-07", "P1")
async def test_what_ended_beside_a_cancelled_step_stays_in_the_conversation(
    open_served: Opener, scripted: ScriptedServer, folder: Path
) -> None:
    add(folder, "beside", graph_code(scripted, SIDE_BY_SIDE))
    async with open_served(extensions_path=str(folder)) as served:
        begun = served.client.stream("POST", "/api/chat", data={"message": "x", "agent": "beside"})
        async with begun as response:
            frames = frames_of(response)
            seen = [await anext(frames)]
            while seen[-1].type != "token":
                seen.append(await anext(frames))
            run = seen[0].data
            await served.client.post(f"/api/runs/{run['run_id']}/cancel")
            assert [frame async for frame in frames][-1].data["status"] == "cancelled"
        await served.chat("and now", session_id=run["session_id"], agent="assistant")
        said = [message["content"] for message in scripted.requests[-1].messages]
        assert said[-3:] == ["x", "Done beside.", "and now"]


@pytest.mark.req("EXT-04", "EXT-05")
def test_a_graph_with_breakpoints_stops_the_start(scripted: ScriptedServer, folder: Path) -> None:
    code = """
def setup(registry):
    build = lambda: line(("a", lambda state: {})).compile(interrupt_before=["a"])
    registry.register_subgraph("breaks", "Stops.", build)
"""
    add(folder, "breaks", graph_code(scripted, code))
    settings = load_settings(None, {"GW_EXTENSIONS_PATH": str(folder)}).settings
    with pytest.raises(ConfigError) as raised:
        checked(settings, SystemClock())
    [fault] = raised.value.faults
    assert "interrupt_before" in fault.what
    assert "interrupt(…)" in fault.cure
