"""Every ready-made middleware of LangChain's runs unchanged around the product's agents (EXT-07)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.scenarios.stage import Stage, house_of
from tests.scenarios.whole import card, history, results, shown, texts
from tests.support import ready_extension
from tests.support.app import Reply, Served
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import DONE, call, calls, error, frame, raw_frames, say

pytestmark = pytest.mark.req("EXT-07")

MAIL = ready_extension.MAIL


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """One product with an agent for each middleware."""
    with house_of(ready_extension, postgres, provider) as served:
        yield served


def tries() -> dict[str, int]:
    """Return what the extension counts, in the module that the product loaded."""
    return sys.modules["extensions.ready.extension"].TRIES


async def previews(stage: Stage, reply: Reply) -> list[str]:
    """Return what the calls of a session gave, in order."""
    parts = [part for one in await history(stage, reply.session_id) for part in one["parts"]]
    return [part["result"]["preview"] for part in parts if part["type"] == "tool_call"]


async def approved(stage: Stage, reply: Reply) -> Reply:
    decisions = [{"tool_call_id": one["tool_call_id"], "type": "approve"} for one in card(reply)]
    return await stage.resume(reply, decisions=decisions)


def sent(stage: Stage) -> str:
    return str([seen.body for seen in stage.requests])


async def test_a_model_that_keeps_failing_is_told_of_as_the_answer(stage: Stage) -> None:
    stage.scripted.on_each("fail and say", error(401, "no"), error(401, "no"))
    reply = await stage.chat("fail and say", agent="retry_says")
    assert reply.last["type"] == "done", reply.last
    assert "failed after 2 attempts" in shown(reply)
    assert len(stage.requests) == 2
    await stage.goes_on_as(reply, "retry_says")


async def test_a_model_that_keeps_failing_ends_the_run_under_its_own_error(stage: Stage) -> None:
    stage.scripted.on_each("fail and end", error(401, "no"), error(401, "no"))
    reply = await stage.chat("fail and end", agent="retry_ends")
    assert reply.last["code"] == "provider_auth", reply.last
    assert len(stage.requests) == 2
    await stage.goes_on_as(reply, "retry_ends")


async def test_a_refusal_of_the_model_ends_the_run_and_says_that_it_was_one(stage: Stage) -> None:
    no = [frame({"role": "assistant"}), frame({"refusal": "I will not do that."})]
    stage.scripted.on("refuse this", raw_frames([*no, frame(finish="stop"), DONE]))
    reply = await stage.chat("refuse this", agent="refusing")
    assert reply.last["code"] == "middleware_failed", reply.last
    assert "refused to produce the requested output: I will not" in reply.last["message"]
    assert "I will not do that." not in shown(reply)
    await stage.goes_on_as(reply, "refusing")


async def test_an_answer_that_is_no_refusal_passes(stage: Stage) -> None:
    stage.scripted.on("allow this", say("With pleasure."))
    reply = await stage.chat("allow this", agent="refusing")
    assert (reply.last["type"], shown(reply)) == ("done", "With pleasure."), reply.last


async def test_a_limit_of_model_calls_ends_each_run_with_an_answer(stage: Stage) -> None:
    stage.scripted.on("limited", call("double", {"number": 1}), say("never"))
    reply = await stage.chat("limited", agent="model_end")
    assert reply.last["type"] == "done", reply.last
    assert "Model call limits exceeded" in shown(reply)
    assert len(stage.requests) == 1
    await stage.goes_on_as(reply, "model_end")


async def test_a_limit_of_model_calls_ends_the_run_with_its_words(stage: Stage) -> None:
    stage.scripted.on("limited hard", call("double", {"number": 1}), say("never"))
    reply = await stage.chat("limited hard", agent="model_error")
    assert reply.last["code"] == "middleware_failed"
    assert "run limit (1/1)" in reply.last["message"]
    await stage.goes_on_as(reply, "model_error")


async def test_a_limit_of_a_session_holds_over_its_runs(stage: Stage) -> None:
    stage.scripted.on("first of all", say("One."))
    first = await stage.chat("first of all", agent="model_thread")
    assert shown(first) == "One."
    second = await stage.chat("second", agent="model_thread", session_id=first.session_id)
    assert "thread limit (1/1)" in shown(second)
    assert len(stage.requests) == 1


async def test_a_limit_of_tool_calls_answers_what_is_too_much(stage: Stage) -> None:
    asked = [("double", {"number": 1}), ("double", {"number": 2})]
    stage.scripted.on("count on", calls(asked), say("Only one."))
    reply = await stage.chat("count on", agent="tool_goes_on")
    assert shown(reply) == "Only one.", reply.last
    assert list(results(await history(stage, reply.session_id)).values()) == [
        "completed",
        "failed",
    ]
    await stage.goes_on_as(reply, "tool_goes_on")


async def test_a_limit_of_tool_calls_ends_the_run_with_its_words(stage: Stage) -> None:
    asked = [("double", {"number": 1}), ("double", {"number": 2})]
    stage.scripted.on("count hard", calls(asked), say("never"))
    reply = await stage.chat("count hard", agent="tool_error")
    assert reply.last["code"] == "middleware_failed"
    assert "run limit exceeded (2/1 calls)" in reply.last["message"]
    await stage.goes_on_as(reply, "tool_error")


async def test_a_limit_of_one_tool_lets_others_pass(stage: Stage) -> None:
    asked = [("double", {"number": 1}), ("double", {"number": 2}), ("address", {"name": "x"})]
    stage.scripted.on("number one", calls(asked), say("So."))
    reply = await stage.chat("number one", agent="tool_named")
    assert list(results(await history(stage, reply.session_id)).values()) == [
        "completed",
        "failed",
        "completed",
    ]


@pytest.mark.req("EXEC-22")
@pytest.mark.parametrize(("agent", "ends"), [("tool_goes_on", "done"), ("tool_end", "done")])
async def test_a_limit_of_a_run_holds_over_its_approvals(
    stage: Stage, agent: str, ends: str
) -> None:
    stage.scripted.on(
        f"ask twice {agent}",
        call("careful", {"number": 1}),
        call("careful", {"number": 2}),
        say("Enough."),
    )
    asked = await stage.chat(f"ask twice {agent}", agent=agent)
    reply = await approved(stage, asked)
    assert reply.last["type"] == ends, reply.last
    kept = await history(stage, reply.session_id)
    assert list(results(kept).values()) == ["completed", "failed"]
    stage.scripted.on("anew", call("careful", {"number": 3}), say("Fine."))
    fresh = await stage.chat("anew", agent=agent, session_id=reply.session_id)
    assert (await approved(stage, fresh)).last["type"] == "done"
    assert list(results(await history(stage, reply.session_id)).values())[-1] == "completed"


@pytest.mark.parametrize(
    ("agent", "left"), [("redact", "[REDACTED_EMAIL]"), ("mask", "@****"), ("hash", "<email_hash:")]
)
async def test_addresses_are_taken_out_of_input_output_and_results(
    stage: Stage, agent: str, left: str
) -> None:
    words = f"{agent} bob@example.org"
    stage.scripted.on(
        lambda seen: agent in seen.last_user, call("address", {"name": "it"}), say(f"It is {MAIL}.")
    )
    reply = await stage.chat(words, agent=agent)
    assert reply.last["type"] == "done", reply.last
    assert left in shown(reply)
    assert MAIL not in reply.text
    assert texts(await history(stage, reply.session_id))[-1][1] == shown(reply)
    await stage.goes_on_as(reply, agent)
    assert MAIL not in sent(stage)
    assert "bob@example.org" not in sent(stage)


@pytest.mark.parametrize("words", ["block bob@example.org", "block the answer", "block the tool"])
async def test_an_address_ends_the_run_where_it_is_found(stage: Stage, words: str) -> None:
    stage.scripted.on("block the answer", say(f"It is {MAIL}."))
    stage.scripted.on("block the tool", call("address", {"name": "it"}), say("never"))
    reply = await stage.chat(words, agent="block")
    assert reply.last["code"] == "middleware_failed"
    assert "email" in reply.last["message"]
    assert MAIL not in str([one for one in reply.frames if one.type != "tool_result"])
    assert MAIL not in sent(stage)
    assert "bob@example.org" not in sent(stage)


async def test_old_results_are_cleared_in_the_request_only(stage: Stage) -> None:
    asked = [call("address", {"name": name}, id=name) for name in ("one", "two")]
    stage.scripted.on("edit this", *asked, say("So."))
    reply = await stage.chat("edit this", agent="editing")
    assert shown(reply) == "So."
    last = [one["content"] for one in stage.requests[-1].messages if one["role"] == "tool"]
    assert last[0] == "[cleared]"
    assert "two:" in last[1]
    assert "one:" in (await previews(stage, reply))[0]
    assert [seen.refused for seen in stage.requests if seen.refused] == []


async def test_a_tool_is_played_by_a_model(stage: Stage) -> None:
    stage.scripted.on("emulate it", call("double", {"number": 21}), say("About."))
    reply = await stage.chat("emulate it", agent="emulated")
    assert "about 40" in (await previews(stage, reply))[0]
    assert "about 40" in sent(stage)


async def test_tools_are_chosen_by_the_servers_model_beside_those_that_always_come(
    stage: Stage,
) -> None:
    chosen = call("ToolSelectionResponse", {"tools": ["double"]})
    stage.scripted.on(lambda seen: "ToolSelectionResponse" in seen.tool_names, chosen)
    stage.scripted.on("select some", say("Selected."))
    reply = await stage.chat("select some", agent="selected")
    assert shown(reply) == "Selected."
    assert sorted(stage.requests[-1].tool_names) == ["address", "double"]


async def test_a_tool_is_tried_again_for_the_errors_that_are_named(stage: Stage) -> None:
    before = tries()["hidden"]
    asked = [("shaky", {"number": 7}), ("hidden", {"number": 1})]
    stage.scripted.on("try again", calls(asked), say("Done."))
    reply = await stage.chat("try again", agent="retried")
    shaky, hidden = await previews(stage, reply)
    assert "7" in shaky
    assert "hidden failed unexpectedly (ValueError)" in str(reply.frames), hidden
    assert tries()["hidden"] == before + 1
    assert "hunter2" not in str(reply.frames) + sent(stage)


async def test_the_errors_of_a_tool_are_told_in_the_words_of_a_middleware(stage: Stage) -> None:
    stage.scripted.on("tell errors", call("hidden", {"number": 1}), say("Done."))
    reply = await stage.chat("tell errors", agent="told")
    assert "hidden has no such number" in (await previews(stage, reply))[0]
    assert list(results(await history(stage, reply.session_id)).values()) == ["failed"]


async def test_files_are_searched_with_tools_that_a_middleware_brings(stage: Stage) -> None:
    stage.scripted.on("search it", call("grep_search", {"pattern": "needle"}), say("There."))
    reply = await stage.chat("search it", agent="searching")
    assert "/notes.txt" in (await previews(stage, reply))[0]


@pytest.mark.req("EXEC-22", "D13")
async def test_a_route_is_kept_over_an_approval_and_a_session_stays_readable(stage: Stage) -> None:
    asked = await stage.chat("route me", agent="routed")
    reply = await approved(stage, asked)
    assert (reply.last["type"], shown(reply)) == ("done", "Small answer."), reply.last
    assert stage.requests == []
    await stage.goes_on_as(reply, "tool_goes_on")


async def test_a_risky_call_is_blocked_and_another_is_carried_out(stage: Stage) -> None:
    asked = [("double", {"number": 7}), ("double", {"number": 8})]
    stage.scripted.on("risk it", calls(asked), say("Half."))
    reply = await stage.chat("risk it", agent="careful_mode")
    risky, fine = await previews(stage, reply)
    assert "classified as risky" in risky
    assert "16" in fine
    assert list(results(await history(stage, reply.session_id)).values()) == [
        "failed",
        "completed",
    ]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_shell_of_a_middleware_keeps_its_state_within_a_run(stage: Stage) -> None:
    stage.scripted.on(
        "use the shell",
        call("shell", {"command": "word=needle"}),
        call("shell", {"command": "echo $word"}),
        say("Done."),
    )
    reply = await stage.chat("use the shell", agent="shell")
    assert reply.last["type"] == "done", reply.last
    assert "needle" in (await previews(stage, reply))[1]
    await stage.goes_on_as(reply, "shell")
