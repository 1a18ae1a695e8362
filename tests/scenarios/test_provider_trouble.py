"""A provider that is down, slow, cut or lying: a named error each time, and the session goes on."""

from __future__ import annotations

import pytest

from tests.scenarios.conftest import Opener
from tests.scenarios.talk import Talk
from tests.scenarios.whole import history, texts
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import (
    Reset,
    Turn,
    answer,
    cut,
    error,
    frame,
    html,
    raw_frames,
    refuse_connection,
    say,
    silent,
    stall,
)

QUICK = {"openai_max_retries": 0, "model_idle_timeout": 0.5}

LONG = say("Half an answer that never ends.")

HALF_CALL = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {
        "name": "write_file",
        "arguments": '{"path":"/workspace/a.txt","content":"line one\\nline tw',
    },
}

TROUBLE: dict[str, tuple[Turn, str]] = {
    "down": (refuse_connection(), "provider_unreachable"),
    "silent": (silent(), "provider_timeout"),
    "stalled": (stall(LONG, 3), "provider_timeout"),
    "cut": (cut(LONG, 3), "provider_stream_cut"),
    "reset": (cut(LONG, 3, reset=True), "provider_stream_cut"),
    "unauthorised": (error(401), "provider_auth"),
    "overloaded": (error(503), "provider_overloaded"),
    "limited": (error(429), "provider_rate_limited"),
    "refused": (error(400), "provider_refused"),
    "no such model": (
        error(404, {"error": {"message": "no such model", "code": "model_not_found"}}),
        "provider_model_missing",
    ),
    "a web page": (html(), "provider_junk"),
    "no choice": (answer({"choices": []}), "provider_junk"),
}


@pytest.mark.req("CHAT-06", "EXEC-13", "L07", "L08", "L10", "P8")
@pytest.mark.parametrize("name", TROUBLE)
async def test_trouble_ends_in_its_named_error_and_the_session_goes_on(
    open_served: Opener, scripted: ScriptedServer, name: str
) -> None:
    turn, code = TROUBLE[name]
    async with open_served(**QUICK) as served:
        scripted.on("hello", turn)
        failed = await served.chat("hello")
        assert failed.last["type"] == "error"
        assert failed.last["code"] == code
        runs = await served.client.get(f"/api/sessions/{failed.session_id}/runs")
        [run] = runs.json()["items"]
        assert run["status"] == "failed"
        scripted.on("and now?", say("Here again."))
        after = await served.chat("and now?", session_id=failed.session_id)
        assert after.last["type"] == "done"
        assert texts(await history(served, failed.session_id))[-1] == (
            "assistant",
            "Here again.",
        )
        assert scripted.refused == []


@pytest.mark.req("L10", "CHAT-28")
async def test_text_that_was_shown_is_kept_and_marked_incomplete(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    async with open_served(**QUICK) as served:
        scripted.play(cut(LONG, 3))
        failed = await served.chat("hello")
        [_, kept] = await history(served, failed.session_id)
        assert kept["status"] == "incomplete"
        assert texts([kept]) == [("assistant", failed.text)]
        assert [part["code"] for part in kept["parts"] if part["type"] == "error"] == [
            "provider_stream_cut"
        ]


CUT_CALLS = {
    "clean close": raw_frames([frame({"tool_calls": [HALF_CALL]})]),
    "reset": raw_frames([frame({"tool_calls": [HALF_CALL]}), Reset()]),
    "finish length": raw_frames(
        [frame({"tool_calls": [HALF_CALL]}), frame({}, "length")], done=True
    ),
    "finish tool_calls": raw_frames(
        [frame({"tool_calls": [HALF_CALL]}), frame({}, "tool_calls")], done=True
    ),
}


@pytest.mark.req("L11", "L12", "P9")
@pytest.mark.parametrize("name", CUT_CALLS)
async def test_a_call_whose_end_is_not_confirmed_never_runs(
    open_served: Opener, scripted: ScriptedServer, name: str
) -> None:
    async with open_served(**QUICK, hitl_tools="") as served:
        scripted.play(CUT_CALLS[name], say("Sorry."))
        reply = await served.chat("write")
        assert reply.last["type"] in ("done", "error")
        scripted.play(say("fine"))
        await served.chat("go on", session_id=reply.session_id)
        found = list(served.data_dir.rglob("a.txt"))
        assert found == []
        assert scripted.refused == []


@pytest.mark.req("L12")
async def test_three_truncated_turns_in_a_row_end_the_run(
    served: Talk, scripted: ScriptedServer
) -> None:
    scripted.play(*[CUT_CALLS["finish length"]] * 3)
    reply = await served.chat("write")
    assert reply.last["type"] == "error"
    assert reply.last["code"] == "output_truncated"
    assert len(scripted.requests) == 3


@pytest.mark.req("L14", "L15")
@pytest.mark.parametrize(
    "arguments",
    ['{"a":1,"b":', "[1,2]", "null", '{"expression": NaN}', "x" * 100_000, '"text"', '{"n": 1}'],
)
async def test_broken_arguments_get_one_error_result_and_never_stop_the_run(
    open_served: Opener, scripted: ScriptedServer, arguments: str
) -> None:
    half = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "calculate", "arguments": arguments},
    }
    async with open_served(hitl_tools="") as served:
        scripted.play(
            raw_frames([frame({"tool_calls": [half]}), frame({}, "tool_calls")], done=True),
            say("I see."),
        )
        reply = await served.chat("add")
        assert reply.last["type"] == "done"
        assert reply.text == "I see."
        told = [m for m in scripted.requests[1].messages if m["role"] == "tool"]
        assert len(told) == 1
        assert len(told[0]["content"]) < 5_000
        await served.chat("more", session_id=reply.session_id)
        assert scripted.refused == []


@pytest.mark.req("L02", "L04")
async def test_calls_without_an_index_or_id_are_joined_and_named(
    open_served: Opener, scripted: ScriptedServer
) -> None:
    first = {"function": {"name": "calculate", "arguments": '{"expression":'}, "id": "call_1"}
    rest = {"type": "function", "function": {"arguments": '"1+2"}'}}
    nameless = {
        "index": 0,
        "id": "",
        "type": "function",
        "function": {"name": "calculate", "arguments": '{"expression":"2+2"}'},
    }
    async with open_served(hitl_tools="") as served:
        scripted.play(
            raw_frames(
                [
                    frame({"tool_calls": [first]}),
                    frame({"tool_calls": [rest]}),
                    frame({}, "tool_calls"),
                ],
                done=True,
            ),
            raw_frames([frame({"tool_calls": [nameless]}), frame({}, "tool_calls")], done=True),
            say("3 and 4"),
        )
        reply = await served.chat("add")
        assert reply.last["type"] == "done"
        assert [e["args"] for e in reply.of("tool_call")] == [
            {"expression": "1+2"},
            {"expression": "2+2"},
        ]
        assert scripted.refused == []
