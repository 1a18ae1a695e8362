"""The demo model: every feature can be tried offline, in two languages (MODEL-09)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from core.clock import Clock, FakeClock
from providers.demo import DemoHandle
from tests.providers.conftest import Shown

TOOLS = (
    "calculate", "now", "ask_user", "update_plan", "request_plan_approval", "read_file",
    "write_file", "list_files", "airflow", "load_skill",
)  # fmt: skip


class NoWait(FakeClock):
    """Counts the pauses and takes none."""

    pauses = 0

    async def sleep(self, seconds: float) -> None:
        self.pauses += 1


def offered(*names: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]


async def play(
    text: str,
    *,
    tools: Sequence[str] = TOOLS,
    clock: Clock | None = None,
    status: str = "completed",
) -> list[AIMessage]:
    """Drive the model as the agent's loop does, with every call answered."""
    demo = DemoHandle(clock or NoWait())
    history: list[BaseMessage] = [SystemMessage("rules"), HumanMessage(text)]
    turns: list[AIMessage] = []
    while len(turns) < 8:
        shown = Shown()
        message = await demo.ask(
            history, tools=offered(*tools), message_id=f"m{len(turns)}", sink=shown
        )
        assert shown.joined() == message.content
        turns.append(message)
        history.append(message)
        if not message.tool_calls:
            return turns
        for one in message.tool_calls:
            result = {"status": status, "data": {"from": one["name"]}, "meta": {}}
            history.append(ToolMessage(json.dumps(result), tool_call_id=one["id"]))
    raise AssertionError("the scene never ends")


def called(turns: Sequence[AIMessage]) -> list[str]:
    return [one["name"] for turn in turns for one in turn.tool_calls]


SCENES = [
    ("please calculate 17 * 23", "计算 17 × 23", ["calculate"]),
    ("show me an approval", "演示审批", ["calculate"]),
    ("make a plan", "做个计划", ["update_plan", "request_plan_approval", "update_plan"]),
    ("ask me something", "向我提问", ["ask_user"]),
    ("write a file", "写文件", ["write_file", "read_file"]),
    ("three tools", "三个工具", ["calculate", "now", "list_files"]),
    ("what time is it", "现在几点", ["now"]),
    ("show me a skill", "演示技能", ["load_skill", "read_file"]),
    ("with sources", "要有来源", ["airflow"]),
    ("think about it", "思考一下", []),
    ("hello", "你好", []),
]


@pytest.mark.req("MODEL-09")
@pytest.mark.parametrize(("english", "chinese", "tools"), SCENES)
async def test_each_scene_plays_to_its_end_in_both_languages(
    english: str, chinese: str, tools: list[str]
) -> None:
    first, second = await play(english), await play(chinese)
    assert called(first) == called(second) == tools
    assert first[-1].text.isascii() or "—" in first[-1].text
    assert not second[-1].text.isascii()


@pytest.mark.req("MODEL-09")
async def test_the_help_names_every_scene_and_how_to_get_a_real_model() -> None:
    [turn] = await play("hello")
    for word in ("calculate", "think", "approval", "plan", "ask me", "file", "OPENAI_MODEL"):
        assert word in turn.text


@pytest.mark.req("MODEL-09")
async def test_only_offered_tools_are_called() -> None:
    for english, _, _ in SCENES:
        turns = await play(english, tools=["now"])
        assert set(called(turns)) <= {"now"}
    assert "does not have it" in (await play("ask me", tools=[]))[0].text


@pytest.mark.req("MODEL-09")
async def test_a_refused_call_is_reported_as_refused() -> None:
    for text in ("approval", "write a file", "make a plan", "calculate 1 + 1"):
        turns = await play(text, status="denied")
        assert len(turns) <= 3 and not turns[-1].tool_calls
        assert "ran" not in turns[-1].text.split()


@pytest.mark.req("MODEL-09")
async def test_the_sum_of_the_user_is_worked_out() -> None:
    turns = await play("计算 17 × 23")
    assert turns[0].tool_calls[0]["args"] == {"expression": "17 * 23"}


@pytest.mark.req("MODEL-09")
async def test_thinking_is_shown_apart_and_kept() -> None:
    shown = Shown()
    message = await DemoHandle(NoWait()).ask([HumanMessage("think")], message_id="m", sink=shown)
    assert message.additional_kwargs["reasoning_content"] == shown.joined("thinking") != ""
    assert shown.joined() == message.content


@pytest.mark.req("MODEL-09", "EXEC-14")
async def test_usage_is_an_estimate_and_says_so() -> None:
    [turn] = await play("hello")
    assert turn.response_metadata["usage_source"] == "estimate"
    assert turn.usage_metadata["input_tokens"] > 0 < turn.usage_metadata["output_tokens"]


@pytest.mark.req("MODEL-09")
async def test_words_come_one_by_one_through_the_clock() -> None:
    clock = NoWait()
    [turn] = await play("hello", clock=clock)
    assert clock.pauses >= len(turn.text.split())


@pytest.mark.req("MODEL-09")
async def test_background_questions_get_short_plain_answers() -> None:
    demo = DemoHandle(NoWait())
    review = [SystemMessage('Answer {"verdict": …}'), HumanMessage("a talk")]
    assert json.loads((await demo.ask(review, message_id="m")).text)["verdict"] == "complete"
    digest = await demo.ask([HumanMessage("plan " * 1000)], message_id="m")
    assert 0 < len(digest.text) <= 600 and not digest.tool_calls


@pytest.mark.parametrize("language", ["{}", "请用 {} 查一下"])
async def test_a_call_that_is_spelled_out_is_made_whatever_tool_it_is(language: str) -> None:
    """Whoever has written a tool tries it without a real model."""
    text = language.format('desk_find {"topic": "time", "deep": {"a": [1]}}')
    asked, answered = await play(text, tools=("desk_find", "now"))
    [one] = asked.tool_calls
    assert (one["name"], one["args"]) == ("desk_find", {"topic": "time", "deep": {"a": [1]}})
    assert "desk_find" in answered.text
    refused = (await play(text, tools=("desk_find",), status="failed"))[-1]
    assert refused.text != answered.text


@pytest.mark.parametrize(
    "text", ['other_tool {"a": 1}', 'desk_find {"a": }', "desk_find [1]", "desk_find", "{}"]
)
async def test_what_is_no_whole_call_of_a_tool_that_is_there_calls_nothing(text: str) -> None:
    assert called(await play(text, tools=("desk_find",))) == []
