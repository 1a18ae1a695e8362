"""Long conversations: shortened, summarised, archived, and still valid and complete."""

from __future__ import annotations

import json
import re

import pytest

from core.context import Limits
from core.errors import ContextExhausted
from core.tooling import define_tool
from tests.support.scripted_turns import call, calls, error, say

OVERFLOW = error(400, {"error": {"code": "context_length_exceeded", "message": "too long"}})


def is_summary(seen) -> bool:
    return seen.messages[0]["content"].startswith("You compress")


def keeps_codes(seen):
    """Summarise as a faithful model would: every code of the text stays."""
    codes = dict.fromkeys(re.findall(r"code-\d+", seen.last_user))
    return say(f"### Facts and results\n{' '.join(codes)}")


def summaries(scripted) -> list:
    return [seen for seen in scripted.requests if is_summary(seen)]


@define_tool()
async def fetch(number: int) -> str:
    """Fetch a long text."""
    return f"code-{number} " + "long text " * 400


@pytest.mark.req("EXEC-10", "EXEC-11", "C01")
async def test_three_hundred_messages_are_summarised_twice_and_stay_valid(talk_with, scripted):
    scripted.on(is_summary, keeps_codes)
    talk = talk_with(window=6_000)
    assert await talk.say("My goal: count code-0 in all rooms.") != ""
    for number in range(1, 150):
        text = f"message {number} code-{number} " + "word " * 40
        assert await talk.say(text) == f"echo: {text}"
    assert len(summaries(scripted)) >= 2
    assert scripted.refused == []
    usable = 6_000 - 1_500
    assert max(seen.prompt_tokens for seen in scripted.requests) < usable
    sent = scripted.requests[-1].messages
    block = sent[1]["content"]
    for part in ("My goal: count code-0 in all rooms.", "code-1 ", "read_file", talk.archive_path):
        assert part in block
    archive = (await talk.files.read(talk.archive_path))[0].decode()
    left = {message.text for message in await talk.messages()}
    for number in range(1, 150):
        text = f"message {number} code-{number} "
        assert text in archive or any(text in one for one in left)
    archives = [u["summarise"]["summary"]["archive"] for u in talk.updates if "summarise" in u]
    assert len(archives) == len(summaries(scripted))
    for archive in archives:
        assert archive["tokens_after"] < 0.7 * usable
        assert archive["tokens_before"] >= 0.85 * usable
        assert archive["messages"] > 0


@pytest.mark.req("C03", "EXEC-10")
async def test_a_long_stretch_of_tools_is_summarised_in_pieces_by_the_model(talk_with, scripted):
    scripted.on(is_summary, keeps_codes)
    scripted.on(
        "Fetch all",
        lambda seen: (
            call("fetch", {"number": len(talk.seen.named("tool_call"))})
            if len(talk.seen.named("tool_call")) < 60
            else say("done")
        ),
    )
    limits = Limits(context_limit=16_000, summary_input=4_000, model_calls=999, steps=999)
    talk = talk_with(tools=[fetch], window=16_000, limits=limits)
    assert await talk.say("Fetch all the texts.") == "done"
    assert len(summaries(scripted)) > 3
    assert all(seen.prompt_tokens < 5_000 for seen in summaries(scripted))
    assert "Fetch all the texts." in scripted.requests[-1].messages[1]["content"]
    summary = (await talk.state())["summary"]
    assert "code-5 " in summary["text"]
    archive = (await talk.files.read(summary["path"]))[0].decode()
    assert "code-5 " + "long text " * 400 in archive
    assert scripted.refused == []


@pytest.mark.req("EXEC-12")
async def test_under_pressure_old_results_are_shortened_before_anything_is_summarised(
    talk_with, scripted
):
    scripted.on("go", *[call("fetch", {"number": n}, id=f"k{n}") for n in range(7)], say("done"))
    talk = talk_with(tools=[fetch], window=12_000)
    assert await talk.say("go") == "done"
    assert summaries(scripted) == []
    assert [len(m.text) > 4_000 for m in (await talk.results()).values()] == [True] * 7
    tools = [m["content"] for m in scripted.requests[-1].messages if m["role"] == "tool"]
    short = [text for text in tools if "shortened" in text]
    assert 0 < len(short) < 7
    path = json.loads(short[0])["meta"]["whole"].removeprefix("read_file ")
    assert (await talk.files.read(path))[0].decode().startswith("code-0 long")
    assert scripted.refused == []


@pytest.mark.req("EXEC-13")
async def test_a_failed_summary_loses_nothing_and_is_not_tried_again_in_the_run(
    talk_with, scripted
):
    scripted.on(is_summary, error(400))
    scripted.default = say("ok")
    talk = talk_with(window=10_000)
    for number in range(5):
        await talk.say(f"{number} " + "word " * 1_000)
    before, tried = len(await talk.messages()), len(summaries(scripted))
    scripted.on("look", call("calculate", {"expression": "1"}), call("now", {}), say("still here"))
    assert await talk.say("look") == "still here"
    assert len(await talk.messages()) == before + 6
    assert len(summaries(scripted)) == tried + 1
    assert scripted.refused == []


@pytest.mark.req("EXEC-13")
async def test_a_failed_summary_that_leaves_too_much_ends_with_its_own_code(talk_with, scripted):
    scripted.on(is_summary, error(400))
    scripted.default = say("ok")
    talk = talk_with(window=10_000)
    for number in range(4):
        await talk.say(f"{number} " + "word " * 900)
    with pytest.raises(ContextExhausted) as caught:
        await talk.say("word " * 3_000)
    assert caught.value.code == "context_exhausted"
    await talk.settle()
    assert len(await talk.messages()) == 9


@pytest.mark.req("EXEC-13")
async def test_an_overflow_leads_to_one_summary_and_one_retry(talk_with, scripted):
    scripted.on(is_summary, keeps_codes)
    talk = talk_with()
    for number in range(6):
        await talk.say(f"code-{number} " + "word " * 300)
    most = scripted.requests[-1].prompt_tokens - 500
    scripted.refuse_over(most, OVERFLOW)
    assert await talk.say("code-7") == "echo: code-7"
    refused = [seen for seen in scripted.requests[6:] if seen.prompt_tokens > most]
    assert len(refused) == 1
    assert len(summaries(scripted)) >= 1
    assert "code-0" in scripted.requests[-1].messages[1]["content"]
    assert [purpose for purpose, _ in talk.seen.usage].count("summary") == len(summaries(scripted))
    assert scripted.refused == []


@pytest.mark.req("EXEC-13")
async def test_a_second_overflow_ends_the_run_honestly(talk_with, scripted):
    scripted.on(is_summary, keeps_codes)
    talk = talk_with()
    for number in range(4):
        await talk.say(f"code-{number} " + "word " * 300)
    scripted.on(lambda seen: not is_summary(seen), OVERFLOW)
    with pytest.raises(ContextExhausted):
        await talk.say("code-7")
    turns = [seen for seen in scripted.requests if not is_summary(seen)]
    assert len(turns) == 4 + 2
    await talk.settle()


@pytest.mark.req("EXEC-13")
async def test_one_message_that_can_never_fit_ends_without_a_loop(talk_with, scripted):
    scripted.refuse_over(2_000, OVERFLOW)
    talk = talk_with()
    with pytest.raises(ContextExhausted):
        await talk.say("word " * 4_000)
    assert len(scripted.requests) == 1
    await talk.settle()
    assert (await talk.messages())[0].text.startswith("word")


@pytest.mark.req("EXEC-13")
async def test_one_huge_result_is_shortened_when_the_provider_says_overflow(talk_with, scripted):
    scripted.on("go", call("fetch", {"number": 1}, id="k1"), say("done"))
    scripted.refuse_over(2_000, OVERFLOW)
    talk = talk_with(tools=[fetch])
    assert await talk.say("go") == "done"
    assert summaries(scripted) == []
    assert scripted.refused == []


@pytest.mark.req("EXEC-10", "C01")
async def test_a_summary_between_call_and_result_parts_nothing(talk_with, scripted):
    scripted.on(is_summary, keeps_codes)
    asked = [("fetch", {"number": n}, f"k{n}") for n in range(4)]
    scripted.on("go", calls(asked), calls([(t, a, f"{k}b") for t, a, k in asked]), say("done"))
    talk = talk_with(tools=[fetch], window=9_000)
    for number in range(12):
        await talk.say(f"code-{100 + number} " + "word " * 200)
    assert await talk.say("go") == "done"
    assert len(summaries(scripted)) >= 1
    assert scripted.refused == []


@pytest.mark.req("EXEC-10")
async def test_the_plan_and_the_present_request_survive_word_for_word(talk_with, scripted):
    scripted.on(is_summary, say("Things happened."))
    todos = [{"content": "fetch everything", "status": "in_progress"}]
    scripted.on_each(
        "Second task",
        call("update_plan", {"todos": todos}),
        *[call("fetch", {"number": n}) for n in range(12)],
        say("done"),
    )
    talk = talk_with(tools=[fetch], window=9_000)
    await talk.say("First task: be quick.")
    assert await talk.say("Second task: fetch.") == "done"
    block = scripted.requests[-1].messages[1]["content"]
    for part in ("First task: be quick.", "Second task: fetch.", "- [~] fetch everything"):
        assert part in block
    assert scripted.refused == []


async def test_switched_off_summarising_leaves_the_provider_to_judge(talk_with, scripted):
    talk = talk_with(window=4_000, limits=Limits(context_limit=4_000, compact=False))
    for _ in range(5):
        await talk.say("word " * 1_000)
    assert len(await talk.messages()) == 10
    scripted.refuse_over(2_000, OVERFLOW)
    with pytest.raises(ContextExhausted):
        await talk.say("more")
