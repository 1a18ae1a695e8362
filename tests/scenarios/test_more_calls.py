"""Odd tool calls: each gets exactly one result, nothing unfit runs, and the session goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenarios.stage import Stage
from tests.scenarios.whole import history, results
from tests.support.scripted_turns import Turn, call, calls, frame, raw_frames, say


def whole_call(arguments: Any, name: Any = "now", **more: Any) -> Turn:
    """One call in one frame, exactly as given."""
    function = {"name": name, "arguments": arguments}
    one = {"index": 0, "id": "c", "type": "function", "function": function, **more}
    return raw_frames([frame({"tool_calls": [one]}), frame({}, "tool_calls")], done=True)


def nested(depth: int) -> str:
    return '{"timezone":' + '{"a":' * depth + "1" + "}" * depth + "}"


UNFIT: dict[str, Turn] = {
    "upper case name": whole_call("{}", "Now"),
    "name with spaces": whole_call('{"timezone": "UTC"}', "now now"),
    "name of another alphabet": whole_call("{}", "现在"),
    "no name": whole_call("{}", ""),
    "null name": whole_call("{}", None),
    "endless name": whole_call("{}", "now" * 2_000),
    "name with NUL and half a pair": whole_call("{}", "no\x00w\ud83d"),
    "unknown field": whole_call('{"timezone": "UTC", "sudo": true}'),
    "wrong type": whole_call('{"timezone": ["UTC"]}'),
    "number of thirty digits": whole_call(
        '{"first_line": 1%s, "path": "a"}' % ("0" * 30), "read_file"
    ),
    "number of five thousand digits": whole_call('{"timezone": 1%s}' % ("0" * 5_000)),
    "infinite number": whole_call('{"timezone": 1e999}'),
    "nested 90 deep": whole_call(nested(90)),
    "nested 240 deep": whole_call(nested(240)),
    "nested 300 deep": whole_call(nested(300)),
    "nested 480 deep": whole_call(nested(480)),
    "nested 800 deep": whole_call(nested(800)),
    "nested 20000 deep": whole_call(nested(20_000)),
    "array as object": whole_call("[]"),
    "number": whole_call("12"),
    "encoded three times": whole_call(json.dumps(json.dumps(json.dumps({})))),
    "trailing words": whole_call('{"timezone": "UTC"} and more'),
    "two objects": whole_call('{"timezone": "UTC"}{"timezone": "UTC"}'),
    "single quotes": whole_call("{'timezone': 'UTC'}"),
    "zone with NUL": whole_call('{"timezone": "UTC\\u0000"}'),
    "zone with half a pair": whole_call('{"timezone": "UTC\\ud83d"}'),
    "zone that is a path": whole_call('{"timezone": "../../etc/passwd"}'),
    "null for a text": whole_call('{"timezone": null}'),
    "fifty thousand characters": whole_call('{"timezone": "%s"}' % ("x" * 50_000)),
}


@pytest.mark.req("L14", "L15", "L25", "D08")
@pytest.mark.parametrize("name", UNFIT)
async def test_an_unfit_call_gets_one_error_and_the_answer_still_comes(
    stage: Stage, name: str
) -> None:
    stage.scripted.on(f"unfit {name}.", UNFIT[name], say("I see."))
    reply = await stage.chat(f"unfit {name}.")
    assert reply.last["type"] == "done", reply.last
    assert reply.text == "I see."
    told = [m for m in stage.requests[-1].messages if m["role"] == "tool"]
    assert [json.loads(m["content"])["status"] for m in told] == ["failed"]
    assert len(told[0]["content"]) < 5_000
    assert list(results(await history(stage, reply.session_id)).values()) == ["failed"]
    await stage.goes_on(reply.session_id)


FIT: dict[str, Turn] = {
    "no arguments at all": whole_call(None),
    "spaces": whole_call("  "),
    "encoded twice": whole_call(json.dumps(json.dumps({"timezone": "UTC"}))),
    "an object": whole_call({"timezone": "UTC"}),
    "the same key twice": whole_call('{"timezone": "Mars", "timezone": "UTC"}'),
    "a line break inside": whole_call('\n{\n"timezone"\n:\n"UTC"\n}\n'),
    "an id with spaces": whole_call("{}", id="my own call"),
    "an endless id": whole_call("{}", id="c" * 5_000),
    "a numeric id": whole_call("{}", id=7),
    "finish stop": call("now", {}, finish="stop"),
    "finish function_call": call("now", {}, finish="function_call"),
    "finish nobody knows": call("now", {}, finish="eos_token"),
}


@pytest.mark.req("L04", "L14", "EXEC-03")
@pytest.mark.parametrize("name", FIT)
async def test_a_call_that_can_be_read_runs_once(stage: Stage, name: str) -> None:
    stage.scripted.on(f"fit {name}.", FIT[name], say("Done."))
    reply = await stage.chat(f"fit {name}.")
    assert reply.last["type"] == "done", reply.last
    assert list(results(await history(stage, reply.session_id)).values()) == ["completed"]
    await stage.goes_on(reply.session_id)


@pytest.mark.req("L04", "L15")
async def test_an_id_may_come_again_in_a_turn_and_in_later_turns(stage: Stage) -> None:
    same = [("now", {"timezone": zone}, "again") for zone in ("UTC", "Asia/Tokyo")]
    stage.scripted.on("repeat ids", calls(same), calls(same), say("Done."))
    reply = await stage.chat("repeat ids")
    assert reply.last["type"] == "done", reply.last
    ids = [event["tool_call_id"] for event in reply.of("tool_result")]
    assert len(ids) == len(set(ids)) == 4
    kept = results(await history(stage, reply.session_id))
    assert list(kept.values()) == ["completed"] * 4
    await stage.goes_on(reply.session_id)


@pytest.mark.req("EXEC-03", "EXEC-20", "L14", "H05")
async def test_gated_unknown_broken_and_free_calls_of_one_turn_keep_apart(stage: Stage) -> None:
    asked = [
        ("calculate", {"expression": "1+1"}, "gated"),
        ("no_such_tool", {}, "unknown"),
        ("now", "{broken", "broken"),
        ("calculate", {"formula": "1"}, "gated but unfit"),
        ("now", {}, "free"),
    ]
    stage.scripted.on("mixed turn", calls(asked), say("Done."))
    waiting = await stage.chat("mixed turn")
    cards = waiting.last["tool_approval"]["calls"]
    assert [one["tool_call_id"] for one in cards] == ["gated"]
    done = await stage.resume(waiting, decisions=[{"tool_call_id": "gated", "type": "approve"}])
    assert done.last["type"] == "done"
    kept = results(await history(stage, done.session_id))
    assert sorted(str(status) for status in kept.values()) == ["completed"] * 2 + ["failed"] * 3
    await stage.goes_on(done.session_id)


@pytest.mark.req("EXEC-03", "D08")
async def test_two_hundred_calls_of_one_turn_each_get_their_result(stage: Stage) -> None:
    asked = [("now", {"timezone": "UTC" if n % 3 else f"Zone/{n}"}, f"k{n}") for n in range(200)]
    stage.scripted.on("two hundred", calls(asked), say("Done."))
    reply = await stage.chat("two hundred")
    assert reply.last["type"] == "done", reply.last
    sent = [m["tool_call_id"] for m in stage.requests[-1].messages if m["role"] == "tool"]
    assert sent == [f"k{n}" for n in range(200)]
    await stage.goes_on(reply.session_id)


@pytest.mark.req("EXEC-05", "EXEC-09", "D07")
async def test_a_loop_between_two_tools_ends_with_a_reason(stage: Stage) -> None:
    one = call("list_files", {"path": "/workspace"})
    two = call("list_files", {"path": "/workspace", "recursive": True})
    stage.scripted.on("loop", *[one, two] * 10)
    reply = await stage.chat("loop")
    assert reply.last["code"] == "no_progress", reply.last
    assert len(stage.requests) < 16
    kept = list(results(await history(stage, reply.session_id)).values())
    assert kept.count("denied") >= 1
    assert None not in kept
    await stage.goes_on(reply.session_id)
