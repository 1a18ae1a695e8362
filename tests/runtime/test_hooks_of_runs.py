"""Hooks about requests, answers, contexts and runs: what they change is sent, shown, stored."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from core.errors import ToolDenied
from core.hooks import (
    ContextBuilt,
    ContextParts,
    ModelAnswer,
    ModelRequest,
    RunEnd,
    RunStart,
    ToolCall,
)
from core.registry import Registry
from extensions import get_service
from tests.runtime.conftest import Bench
from tests.support.events import text_of, types_of
from tests.support.hooking import named, sent_args, use
from tests.support.scripted_turns import call, say


@pytest.mark.req("EXT-10")
async def test_a_request_can_lose_tools_and_change_texts_and_stays_well_paired(bench: Bench):
    def tame(event: ModelRequest) -> ModelRequest:
        texts = [
            dataclasses.replace(one, text=one.text.replace("secret", "***"))
            for one in event.messages
        ]
        return dataclasses.replace(event, messages=texts, tools=["lookup"], max_tokens=5_000)

    use(bench, ("model_request.before", tame))
    ground = await bench.open()
    ground.scripted.play(call("lookup", {"key": "secret"}), say("Done."))
    submitted, events = await ground.chat("tell the secret")
    first, second = ground.scripted.requests
    assert first.tool_names == ["lookup"]
    assert first.last_user == "tell the ***"
    assert 5_000 in (first.body.get("max_tokens"), first.body.get("max_completion_tokens"))
    assert "value of ***" in second.messages[-1]["content"]
    assert sent_args(ground) == [{"key": "secret"}]
    assert events[-1].type == "done"
    assert ground.scripted.refused == []
    assert "tell the secret" in str(await ground.history(submitted.session_id))


@pytest.mark.req("EXT-10")
async def test_a_hook_cannot_add_a_tool_or_lead_past_the_window_or_the_budget(bench: Bench):
    given: list[Callable[[ModelRequest], Any]] = [
        lambda event: dataclasses.replace(event, tools=(*event.tools, "write_file")),
        lambda event: dataclasses.replace(
            event,
            messages=[dataclasses.replace(one, text="long " * 60_000) for one in event.messages],
        ),
        lambda event: dataclasses.replace(event, max_tokens=10**9),
    ]

    def lead_on(event: ModelRequest) -> Any:
        return given[0](event)

    use(bench, ("model_request.before", lead_on))
    ground = await bench.open(run_token_budget=20_000)
    codes: list[str] = []
    while given:
        _, events = await ground.chat("go")
        codes.append(events[-1].data["code"])
        del given[0]
    assert codes == ["hook_result_invalid", "context_exhausted", "hook_result_invalid"]
    given.append(
        lambda event: dataclasses.replace(
            event,
            messages=[
                dataclasses.replace(one, text=one.text + " pad" * 22_000)
                if one.role == "system"
                else one
                for one in event.messages
            ],
        )
    )
    _, events = await ground.chat("go")
    assert events[-1].data["code"] == "token_budget"
    assert ground.scripted.requests == []


@pytest.mark.req("EXT-10", "EXT-07")
async def test_a_changed_answer_is_all_that_is_ever_shown(bench: Bench):
    def redact(event: ModelAnswer) -> ModelAnswer:
        return dataclasses.replace(event, text=event.text.replace("4711", "****"))

    use(bench, ("model_request.after", redact))
    ground = await bench.open()
    ground.scripted.play(say("The pin is 4711.", reasoning="Hm."))
    submitted, events = await ground.chat("pin?")
    assert text_of(events) == "The pin is ****."
    assert "4711" not in json.dumps([dict(one.data) for one in events])
    assert "4711" not in str(await ground.history(submitted.session_id))
    assert named(events, "thinking_token")[0]["content"] == "Hm."


@pytest.mark.req("EXT-10", "EXT-07")
async def test_an_observer_of_answers_does_not_hold_their_tokens_back(bench: Bench):
    answers: list[str] = []
    use(bench, ("model_request.after", lambda event: answers.append(event.text)), observes=True)
    ground = await bench.open()
    ground.scripted.play(say("one two three four", pause=0.05))
    _, events = await ground.chat("count")
    assert answers == ["one two three four"]
    assert len(named(events, "token")) > 1


@pytest.mark.req("EXT-10")
async def test_hooks_change_what_a_turns_context_is_built_from(bench: Bench):
    def before(event: ContextParts) -> ContextParts:
        assert event.instructions == "Be brief."
        return dataclasses.replace(event, instructions="Answer in verse.")

    def after(event: ContextBuilt) -> ContextBuilt:
        first = event.messages[0]
        assert "Answer in verse." in first.text
        changed = dataclasses.replace(first, text=f"{first.text}\nToday is Monday.")
        return dataclasses.replace(event, messages=(changed, *event.messages[1:]))

    use(bench, ("context.before", before), ("context.after", after))
    ground = await bench.open()
    ground.scripted.play(say("Hello."))
    await ground.chat("hi")
    system = ground.scripted.requests[-1].messages[0]["content"]
    assert "Answer in verse." in system
    assert system.endswith("Today is Monday.")
    assert "Be brief." not in system


@pytest.mark.req("EXT-10")
async def test_a_run_can_be_refused_before_it_asks_anything(bench: Bench):
    def closed(event: RunStart) -> RunStart | None:
        if "holiday" in event.message:
            raise ToolDenied("Closed today.")
        return dataclasses.replace(event, message=f"{event.message} (please)")

    ends: list[RunEnd] = []
    use(bench, ("run.before", closed), ("run.after", ends.append))
    ground = await bench.open()
    ground.scripted.on("work (please)", say("Done."))
    submitted, events = await ground.chat("holiday?")
    assert types_of(events)[-2:] == ["agent_error", "error"]
    assert (events[-1].data["code"], events[-1].data["message"]) == (
        "hook_refused",
        "Closed today.",
    )
    assert ground.scripted.requests == []
    _, events = await ground.chat("work", submitted.session_id)
    assert events[-1].type == "done"
    assert [(end.status, end.error_code, end.answer) for end in ends] == [
        ("failed", "hook_refused", ""),
        ("success", "", "Done."),
    ]
    history = await ground.history(submitted.session_id)
    assert history[-2]["parts"][0]["text"] == "work"


@pytest.mark.req("EXT-10")
@pytest.mark.parametrize(
    ("point", "code"),
    [
        ("run.after", "hook_failed"),
        ("context.before", "hook_failed"),
        ("model_request.after", "hook_failed"),
        ("tool_call.before", "hook_failed"),
    ],
)
async def test_a_failing_hook_ends_the_run_by_name_and_the_session_goes_on(
    bench: Bench, point: str, code: str
):
    state = {"fails": True}

    async def may_fail(event: Any) -> None:
        if state["fails"]:
            raise ValueError("inside")

    use(bench, (point, may_fail))
    ground = await bench.open()
    ground.scripted.play(call("lookup", {"key": "a"}), say("One."))
    submitted, events = await ground.chat("look")
    assert (events[-1].type, events[-1].data["code"]) == ("error", code)
    assert "may_fail" in events[-1].data["message"]
    state["fails"] = False
    ground.scripted.play(say("Two."))
    _, events = await ground.chat("again", submitted.session_id)
    assert events[-1].type == "done"
    assert ground.scripted.refused == []
    usage = await ground.runs.get(ground.ann, submitted.run_id)
    assert usage.usage["output_tokens"] > 0 or point == "context.before"


@pytest.mark.req("EXT-10", "EXT-06")
async def test_a_hook_uses_services_and_its_run_records_what_it_began_with(bench: Bench):
    @asynccontextmanager
    async def book(_: Any):
        yield {"a": "b"}

    def swap(event: ToolCall) -> ToolCall:
        return dataclasses.replace(event, args={"key": get_service("book")["a"]})

    def setup(registry: Registry) -> None:
        registry.register_service("book", book)
        registry.extension = "acme"
        registry.register_hook("tool_call.before", swap, agents=["assistant"])

    bench.setup = setup
    ground = await bench.open()
    ground.scripted.play(call("lookup", {"key": "a"}), say("Done."))
    submitted, _ = await ground.chat("look")
    assert ground.done == ["lookup b"]
    run = await ground.runs.get(ground.ann, submitted.run_id)
    [(name, fingerprint)] = run.input["began_with"]["hooks"].items()
    assert name.startswith("acme.")
    assert name.endswith("swap@tool_call.before")
    assert len(fingerprint) == 32
    [shown] = ground.environment.agents.summary()["hooks"]
    assert shown["fingerprint"] == fingerprint
    assert (shown["point"], shown["agents"]) == ("tool_call.before", ("assistant",))
