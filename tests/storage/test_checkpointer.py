"""Checkpoints: delta channel, interrupts and settling on PostgreSQL; strict reading."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import ormsgpack
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from core.errors import CheckpointDamaged, Unavailable
from core.ids import new_id
from storage.checkpointer import StrictSerializer
from storage.database import Database
from tests.support.postgres import some_keys

SERIALIZER = StrictSerializer(some_keys())


def merge(state: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    """Put messages in, each id once."""
    merged = {message.id: message for message in state}
    for write in writes:
        for message in write if isinstance(write, list) else [write]:
            merged[message.id] = message
    return list(merged.values())


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(merge)]
    decisions: dict[str, Any]


def model(state: State) -> State:
    last = state["messages"][-1]
    turn = len(state["messages"])
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage("done", id=f"a{turn}")]}
    calls = [{"name": "t", "args": {"n": n}, "id": f"c{turn}-{n}"} for n in range(2)]
    return {"messages": [AIMessage("", id=f"a{turn}", tool_calls=calls)]}


def approve(state: State) -> State:
    return {"decisions": {"first": interrupt({"q": 1}), "second": interrupt({"q": 2})}}


def tool(state: dict[str, Any]) -> State:
    call = state["call"]
    return {"messages": [ToolMessage("r", tool_call_id=call["id"], id=f"r-{call['id']}")]}


def after_model(state: State) -> str:
    return "approve" if state["messages"][-1].tool_calls else "finish"


def fan_out(state: State) -> list[Send]:
    return [Send("tool", {"call": call}) for call in state["messages"][-1].tool_calls]


BUILDER = StateGraph(State)
for name, node in (("model", model), ("approve", approve), ("tool", tool)):
    BUILDER.add_node(name, node)
BUILDER.add_node("finish", lambda state: {})
BUILDER.add_edge(START, "model")
BUILDER.add_conditional_edges("model", after_model, ["approve", "finish"])
BUILDER.add_conditional_edges("approve", fan_out, ["tool"])
BUILDER.add_edge("tool", "model")
BUILDER.add_edge("finish", END)


class Thread:
    """One conversation; every step opens the graph anew, as another process would."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.id = new_id()
        self.config: Any = {"configurable": {"thread_id": self.id}}

    def graph(self) -> Any:
        return BUILDER.compile(checkpointer=self.database.checkpointer())

    async def drive(self, what: Any) -> None:
        async for _ in self.graph().astream(what, self.config, durability="sync"):
            pass

    async def say(self, text: str) -> None:
        await self.drive({"messages": [HumanMessage(text, id=text)]})

    async def state(self) -> Any:
        return await self.graph().aget_state(self.config)

    async def ids(self) -> list[str]:
        return [message.id for message in (await self.state()).values["messages"]]


@pytest.fixture
def thread(database: Database) -> Thread:
    """An empty conversation."""
    return Thread(database)


@pytest.mark.req("EXEC-02", "EXEC-22")
async def test_a_waiting_run_goes_on_from_the_database_and_keeps_every_message(thread: Thread):
    await thread.say("h1")
    for answer in ("A", "B"):
        state = await thread.state()
        assert state.next == ("approve",)
        (asked,) = state.interrupts
        await thread.drive(Command(resume={asked.id: answer}))
    state = await thread.state()
    assert state.next == ()
    assert state.interrupts == ()
    assert await thread.ids() == ["h1", "a1", "r-c1-0", "r-c1-1", "a4"]
    assert state.values["decisions"] == {"first": "A", "second": "B"}


@pytest.mark.req("EXEC-02", "H07", "D06")
async def test_a_settled_thread_waits_for_nothing_and_takes_the_next_message(thread: Thread):
    await thread.say("h1")
    closing = [ToolMessage("closed", tool_call_id=f"c1-{n}", id=f"closed{n}") for n in range(2)]
    await thread.graph().aupdate_state(thread.config, {"messages": closing}, as_node="finish")
    state = await thread.state()
    assert (state.next, state.interrupts) == ((), ())
    assert await thread.ids() == ["h1", "a1", "closed0", "closed1"]
    await thread.say("h2")
    assert (await thread.state()).next == ("approve",)
    assert await thread.ids() == ["h1", "a1", "closed0", "closed1", "h2", "a5"]


@pytest.mark.req("EXEC-02")
async def test_checkpoints_grow_with_what_is_new_not_with_the_history(thread: Thread):
    sizes = []
    for turn in range(3):
        for step in range(10):
            text = f"{turn}-{step}"
            long = HumanMessage("x" * 10_000, id=text)
            await thread.graph().aupdate_state(
                thread.config, {"messages": [long]}, as_node="finish"
            )
        async with thread.database.work() as work:
            size = await work.connection.execute(
                "SELECT (SELECT sum(octet_length(blob)) FROM checkpoint_writes) "
                "+ (SELECT coalesce(sum(octet_length(blob)), 0) FROM checkpoint_blobs)"
            )
            sizes.append((await size.fetchone())[0])
    first, second, third = sizes[0], sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 2 * first
    assert third < 2 * first
    assert len(await thread.ids()) == 30


@pytest.mark.req("CHAT-20", "P17")
async def test_a_deleted_thread_is_empty(thread: Thread):
    await thread.say("h1")
    await thread.database.checkpointer().adelete_thread(thread.id)
    assert (await thread.state()).values == {}


@pytest.mark.req("D13")
async def test_a_checkpoint_that_names_a_class_builds_nothing_and_is_damaged(
    thread: Thread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marker = tmp_path / "built"
    source = f"import pathlib\ndef Marker(*a, **k):\n    pathlib.Path({str(marker)!r}).touch()\n"
    (tmp_path / "evil_marker.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    await thread.say("h1")
    planted = [
        ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(["evil_marker", "Marker", arg, "x"])))
        for code, arg in ((0, "x"), (1, ["x"]), (2, {}), (3, "x"), (4, {}), (5, {}))
    ]
    planted.append(
        ormsgpack.packb({"deep": [ormsgpack.Ext(0, ormsgpack.packb(["os", "system", "x"]))]})
    )
    for blob in planted:
        with pytest.raises(CheckpointDamaged):
            SERIALIZER.loads_typed(("msgpack", blob))
        async with thread.database.work() as work:
            await work.connection.execute(
                "UPDATE checkpoint_writes SET type = 'msgpack', blob = %s WHERE channel = 'messages'",
                (blob,),
            )
        with pytest.raises(CheckpointDamaged):
            await thread.state()
        with pytest.raises(CheckpointDamaged):
            await thread.say("go on")
    assert not marker.exists()
    assert "evil_marker" not in sys.modules


@pytest.mark.req("D13")
@pytest.mark.parametrize("form", ["pickle", "json", "unknown"])
def test_forms_that_this_product_does_not_write_are_refused(form: str):
    with pytest.raises(CheckpointDamaged):
        SERIALIZER.loads_typed((form, b"{}"))
    with pytest.raises(CheckpointDamaged):
        SERIALIZER.loads_typed(("msgpack", b"\xc1"))


@pytest.mark.req("D13", "L25")
def test_what_the_product_stores_comes_back_equal():
    call = {"name": "t", "args": {"a": [1, None]}, "id": "c", "type": "tool_call"}
    values = [
        HumanMessage("h\x00", id="1"),
        AIMessage("", id="2", tool_calls=[call], usage_metadata=None),
        ToolMessage("r", id="3", tool_call_id="c", artifact={"full": "x" * 10}),
    ]
    assert SERIALIZER.loads_typed(SERIALIZER.dumps_typed(values)) == values
    broken = SERIALIZER.loads_typed(SERIALIZER.dumps_typed([HumanMessage("a\ud800", id="1")]))
    assert "\ud800" not in broken[0].content


@pytest.mark.req("EXEC-39")
async def test_a_saver_without_a_database_is_unavailable(database_url: str):
    database = await Database.open(database_url, pool_size=2, keys=some_keys())
    saver = database.checkpointer()
    await database.close()
    with pytest.raises(Unavailable):
        await saver.aget_tuple({"configurable": {"thread_id": "t"}})


@pytest.mark.req("EXEC-02")
async def test_two_runs_do_not_wait_for_each_others_saver(database: Database):
    one, two = database.checkpointer(), database.checkpointer()
    async with one.lock:
        found = await asyncio.wait_for(two.aget_tuple({"configurable": {"thread_id": "t"}}), 10)
    assert found is None


@pytest.mark.req("EXEC-35", "P2")
async def test_what_a_step_wrote_is_settled_once_it_is_stored(thread: Thread):
    await thread.say("h1")
    state = await thread.state()
    saver = thread.database.checkpointer()
    await asyncio.wait_for(saver.settled(), 1)
    where = {"configurable": {**state.config["configurable"], "checkpoint_ns": ""}}
    async with saver.lock:
        writing = asyncio.create_task(saver.aput_writes(where, [("decisions", {})], "task"))
        settled = asyncio.create_task(saver.settled())
        await asyncio.wait([writing, settled], timeout=0.2)
        assert not settled.done()
    await asyncio.wait_for(settled, 5)
    await writing
    with pytest.raises(KeyError):
        await saver.aput_writes({"configurable": {}}, [("decisions", {})], "task")
    await asyncio.wait_for(saver.settled(), 1)
