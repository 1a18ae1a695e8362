"""Text, tools, broken calls: one run of the agent loop after the other."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest

from core.errors import OutputTruncated, ProviderJunk, ProviderStreamCut
from core.tooling import ToolContext, define_tool
from graphs.agent import mermaid
from tests.support.scripted_turns import call, calls, frame, raw_frames, say


@define_tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@define_tool(side_effect="write")
async def note(ctx: ToolContext, text: str) -> str:
    """Write a line down."""
    await ctx.files.append("/workspace/notes.txt", f"{text}\n".encode())
    return "noted"


async def notes(talk) -> list[str]:
    entries = await talk.files.list("/workspace")
    if not any(entry.path == "/workspace/notes.txt" for entry in entries):
        return []
    return (await talk.files.read("/workspace/notes.txt"))[0].decode().splitlines()


@pytest.mark.req("EXEC-01")
async def test_an_answer_without_calls_ends_the_run(talk_with, scripted):
    talk = talk_with()
    assert await talk.say("hello") == "echo: hello"
    assert (await talk.graph.aget_state(talk.config)).next == ()
    assert list(talk.seen.text.values()) == ["echo: hello"]
    assert [m.id for m in (await talk.messages())[1:]] == list(talk.seen.text)


@pytest.mark.req("EXEC-01")
async def test_a_tool_is_called_between_two_texts(talk_with, scripted):
    scripted.on("sum", call("add", {"a": 2, "b": 3}, id="k1", text="Let me see."), say("It is 5."))
    talk = talk_with(tools=[add])
    assert await talk.say("sum") == "It is 5."
    assert json.loads((await talk.results())["k1"].text) == {
        "status": "completed", "data": 5, "meta": {}
    }  # fmt: skip
    kinds = [event["type"] for event in talk.seen.events]
    assert kinds == ["thinking", "executing", "tool_call", "thinking"]
    assert talk.seen.named("tool_call")[0]["args"] == {"a": 2, "b": 3}
    assert scripted.refused == []


@pytest.mark.req("EXEC-01")
def test_the_graph_can_be_drawn(talk_with, scripted):
    drawing = mermaid(talk_with(agent={"review": True}).agent)
    for node in ("prepare", "summarise", "call_model", "approve", "run_tool", "observe", "review"):
        assert node in drawing


@pytest.mark.req("EXEC-03")
async def test_calls_run_side_by_side_within_the_agents_limit_and_enter_in_call_order(
    talk_with, scripted
):
    running, most = 0, 0
    gates = [asyncio.Event() for _ in range(6)]

    @define_tool()
    async def work(number: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        if number:
            await gates[number].wait()
        for gate in gates[: number + 2]:
            gate.set()
        running -= 1
        return number

    asked = [("work", {"number": n}, f"k{n}") for n in (1, 2, 0, 3, 4, 5)]
    scripted.on("go", calls(asked), say("done"))
    talk = talk_with(tools=[work], agent={"parallel_calls": 3})
    assert await talk.say("go") == "done"
    assert most == 3
    assert list(await talk.results()) == ["k1", "k2", "k0", "k3", "k4", "k5"]


@pytest.mark.req("D08", "EXT-09")
async def test_a_tool_that_raises_hurts_neither_run_nor_siblings(talk_with, scripted):
    @define_tool()
    async def boom(kind: str) -> None:
        """Fail."""
        raise {"exit": SystemExit, "keys": KeyboardInterrupt, "error": ValueError}[kind]("/srv/x")

    @define_tool()
    def sync_boom() -> None:
        """Fail in a thread."""
        raise SystemExit(1)

    @define_tool()
    async def huge() -> str:
        """Return too much."""
        return "x" * 200_000_000

    @define_tool()
    async def odd(kind: str) -> object:
        """Return something odd."""
        return {"bytes": b"\xff", "none": None, "set": {1, 2}}[kind]

    asked = [("boom", {"kind": kind}, kind) for kind in ("exit", "keys", "error")]
    asked += [("sync_boom", {}, "sync"), ("huge", {}, "huge"), ("note", {"text": "slow"}, "slow")]
    asked += [("odd", {"kind": kind}, kind) for kind in ("bytes", "none", "set")]
    scripted.on("go", calls(asked), say("done"))
    talk = talk_with(tools=[boom, sync_boom, huge, odd, note])
    assert await talk.say("go") == "done"
    results = await talk.results()
    statuses = {key: json.loads(result.text)["status"] for key, result in results.items()}
    assert statuses == dict.fromkeys(("exit", "keys", "error", "sync"), "failed") | dict.fromkeys(
        ("huge", "slow", "bytes", "none", "set"), "completed"
    )
    assert await notes(talk) == ["slow"]
    assert "/srv/x" not in json.dumps(scripted.requests[-1].body)
    assert "Traceback" not in json.dumps(scripted.requests[-1].body)
    assert len(results["huge"].text) < 17_000
    assert len(results["huge"].artifact["full"]) <= 1_000_000
    assert scripted.refused == []


@pytest.mark.req("EXT-09")
async def test_a_long_result_can_be_read_back_whole(talk_with, scripted):
    @define_tool()
    async def long() -> str:
        """Return a lot."""
        return "\n".join(f"line {n}" for n in range(5_000))

    def read_on(seen):
        meta = json.loads(seen.messages[-1]["content"])["meta"]
        path = meta["whole"].removeprefix("read_file ")
        return call("read_file", {"path": path, "first_line": 4_000, "lines": 1}, id="k2")

    scripted.on("go", call("long", {}, id="k1"), read_on, say("done"))
    talk = talk_with(tools=[long])
    assert await talk.say("go") == "done"
    assert json.loads((await talk.results())["k2"].text)["data"]["content"] == "line 3999"


@pytest.mark.req("L14", "L15")
@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1,"b":',
        "[1,2]",
        "null",
        "NaN",
        '{"a":"one","b":null}',
        '{"a":1,"b":2,"c":3}',
        "x" * 1_000_000,
        "",
    ],
    ids=["cut", "array", "null", "nan", "types", "extra", "megabyte", "empty"],
)
async def test_bad_arguments_get_one_error_result_and_the_talk_goes_on(
    arguments, talk_with, scripted
):
    scripted.on("go", call("add", arguments, id="k1"), say("I see."))
    talk = talk_with(tools=[add])
    assert await talk.say("go") == "I see."
    result = (await talk.results())["k1"]
    assert json.loads(result.text)["status"] == "failed"
    assert len(result.text) < 3_000
    assert await talk.say("again") == "echo: again"
    assert await talk.say("and again") == "echo: and again"
    assert scripted.refused == []
    for message in scripted.requests[-1].messages:
        for made in message.get("tool_calls", ()):
            assert isinstance(json.loads(made["function"]["arguments"]), dict)


@pytest.mark.req("L14")
async def test_an_unknown_tool_is_answered_with_the_nearest_name(talk_with, scripted):
    scripted.on("go", call("ad", {"a": 1}, id="k1"), say("I see."))
    talk = talk_with(tools=[add], hitl=["add"])
    assert await talk.say("go") == "I see."
    assert "Did you mean add?" in (await talk.results())["k1"].text
    assert scripted.refused == []


@pytest.mark.req("L14")
async def test_double_encoded_arguments_are_understood(talk_with, scripted):
    scripted.on("go", call("add", json.dumps('{"a": 1, "b": 2}'), id="k1"), say("3"))
    talk = talk_with(tools=[add])
    await talk.say("go")
    assert json.loads((await talk.results())["k1"].text)["data"] == 3


@pytest.mark.req("L12")
@pytest.mark.parametrize("arguments", [{"text": "short"}, '{"text": "sho'], ids=["whole", "cut"])
async def test_no_call_of_a_turn_that_hit_the_output_limit_runs(arguments, talk_with, scripted):
    scripted.on(
        "go",
        call("note", arguments, id="k1", finish="length"),
        call("note", {"text": "small"}, id="k2"),
        say("done"),
    )
    talk = talk_with(tools=[note])
    assert await talk.say("go") == "done"
    assert await notes(talk) == ["small"]
    results = await talk.results()
    assert "smaller pieces" in results["k1"].text
    assert json.loads(results["k1"].text)["status"] == "failed"
    assert scripted.refused == []


@pytest.mark.req("L12")
async def test_three_truncated_turns_in_a_row_end_the_run_with_a_plain_reason(talk_with, scripted):
    scripted.on("go", call("note", {"text": "x"}, finish="length"))
    talk = talk_with(tools=[note])
    with pytest.raises(OutputTruncated, match="three times"):
        await talk.say("go")
    assert len(scripted.requests) == 3
    assert await notes(talk) == []
    await talk.settle()
    assert await talk.say("hello") == "echo: hello"
    assert scripted.refused == []


@pytest.mark.req("L11")
async def test_nothing_of_a_turn_without_a_confirmed_end_runs(talk_with, scripted):
    whole = {"index": 0, "id": "k1", "function": {"name": "note", "arguments": '{"text":"a"}'}}
    scripted.play(raw_frames([frame({"tool_calls": [whole]})]))
    talk = talk_with(tools=[note])
    with pytest.raises(ProviderStreamCut):
        await talk.say("go")
    assert await notes(talk) == []
    await talk.settle()
    assert (await talk.say("hello")).endswith("hello")
    assert scripted.refused == []


async def test_an_empty_answer_is_asked_for_once_more_then_named(talk_with, scripted):
    scripted.play(say(""), say("better"))
    talk = talk_with()
    assert await talk.say("one") == "better"
    scripted.play(say(""), say(""))
    with pytest.raises(ProviderJunk, match="empty answer twice"):
        await talk.say("two")
    await talk.settle()
    assert await talk.say("three") == "echo: two\n\nthree"
    assert scripted.refused == []


@pytest.mark.req("EXEC-12")
async def test_the_next_request_begins_with_the_whole_last_one_byte_for_byte(talk_with, scripted):
    scripted.on("go", call("add", {"a": 1, "b": 2}), call("add", {"a": 3, "b": 4}), say("done"))
    talk = talk_with(tools=[add])
    await talk.say("go")
    await talk.say("more")
    bodies = [json.loads(seen.raw) for seen in scripted.requests]
    texts = [json.dumps(body["messages"], ensure_ascii=False)[:-1] for body in bodies]
    assert len(texts) == 4
    for first, second in itertools.pairwise(texts):
        assert second.startswith(first)
    heads = [seen.raw[: seen.raw.index(b'"role"')] for seen in scripted.requests]
    assert len(set(heads)) == 1
    assert [body["tools"] for body in bodies] == [bodies[0]["tools"]] * 4


@pytest.mark.req("EXEC-14")
async def test_real_usage_counts_and_an_estimate_is_marked(talk_with, scripted):
    scripted.play(
        say("a", usage={"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77}),
        say("b", usage=None),
    )
    talk = talk_with()
    await talk.say("one")
    await talk.say("two")
    (_, first), (_, second) = talk.seen.usage
    assert (first["input_tokens"], first["output_tokens"], first["usage_source"]) == (
        70, 7, "provider"
    )  # fmt: skip
    assert second["usage_source"] == "estimate"
    assert second["input_tokens"] > 100
    assert (await talk.state())["loop"]["tokens"] == second["input_tokens"] + second[
        "output_tokens"
    ]


@pytest.mark.req("EXEC-02")
async def test_a_repeated_attempt_tells_clients_to_drop_the_turn_once(talk_with, scripted):
    scripted.on("go", call("add", {"a": 1, "b": 2}), say("done"))
    talk = talk_with(tools=[add])
    talk.attempt = 2
    await talk.say("go")
    turn = next(m for m in await talk.messages() if m.type == "ai")
    assert talk.seen.resets == [turn.id]
