"""An agent's policies decide in the product's place, and what they may not do is found (EXT-04)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from core.errors import ConfigError
from core.registry import Registry
from extensions.policies import ContextSize, ReviewJob, SummaryJob, default_view
from nodes.policed import fault_of
from runtime.registry import assemble
from tests.runtime.conftest import Bench
from tests.support.events import text_of
from tests.support.scripted_turns import call, say


def use(bench: Bench, kind: str, factory: Callable[[], Any], **agent: Any) -> None:
    """Let the agent `chosen` decide by a policy of the extension `acme`."""

    def setup(registry: Registry) -> None:
        registry.extension = "acme"
        registry.register_policy(kind, factory)
        tools = [said.function for said in registry.tools]
        registry.register_agent("chosen", tools=tools, policies={kind: "acme"}, **agent)

    bench.setup = setup


class LastWords:
    """Sends only the last message of the user and what came after it."""

    def build(self, messages: Any, system: str, summary: Any) -> list[Any]:
        messages[0].content = "changed by the policy"
        start = max(i for i, one in enumerate(messages) if isinstance(one, HumanMessage))
        return default_view(messages[start:], system)


@pytest.mark.req("EXT-04")
async def test_a_view_decides_what_the_model_is_sent_and_changes_nothing_stored(bench: Bench):
    use(bench, "context_view", LastWords)
    ground = await bench.open()
    ground.scripted.play(say("One."), call("lookup", {"key": "a"}), say("Two."))
    submitted, _ = await ground.chat("first", agent="chosen")
    _, events = await ground.chat("second", submitted.session_id)
    assert text_of(events) == "Two."
    sent = [
        one["content"] for one in ground.scripted.requests[-1].messages if one["role"] == "user"
    ]
    assert sent == ["second"]
    assert ground.scripted.refused == []
    other, _ = await ground.chat("third", submitted.session_id, agent="assistant")
    sent = [
        one["content"] for one in ground.scripted.requests[-1].messages if one["role"] == "user"
    ]
    assert sent == ["first", "second", "third"]
    run = await ground.runs.get(ground.ann, submitted.run_id)
    assert list(run.input["began_with"]["policies"]) == ["context_view.acme"]
    run = await ground.runs.get(ground.ann, other.run_id)
    assert run.input["began_with"]["policies"] == {}


SYSTEM, USER = SystemMessage("s"), HumanMessage("u")
TURN = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "c"}])
RESULT = ToolMessage("r", tool_call_id="c")


@pytest.mark.req("EXT-04", "EXEC-10")
@pytest.mark.parametrize(
    ("view", "part"),
    [
        ("text", "no list"),
        ([{"role": "user"}], "no list"),
        ([USER], "does not stand first"),
        ([SystemMessage("other"), USER], "does not stand first"),
        ([SYSTEM], "no message of a user"),
        ([SYSTEM, TURN, RESULT], "no message of a user"),
        ([SYSTEM, USER, SYSTEM], "second system prompt"),
        ([SYSTEM, USER, RESULT], "does not follow its call"),
        ([SYSTEM, USER, TURN], "has no result"),
        ([SYSTEM, USER, TURN, USER, RESULT], "has no result"),
        ([SYSTEM, USER, TURN, ToolMessage("r", tool_call_id="d")], "does not follow"),
        ([SYSTEM, USER, TURN, RESULT, RESULT], "does not follow"),
    ],
)
def test_a_broken_view_is_told_apart(view: Any, part: str):
    assert part in fault_of(view, "s")
    assert fault_of([SYSTEM, USER, TURN, RESULT, USER], "s") == ""


@pytest.mark.req("EXT-04")
@pytest.mark.parametrize("given", [lambda _: ["junk"], lambda _: 1 / 0])
async def test_a_broken_view_ends_the_run_by_name(bench: Bench, given: Callable[[Any], Any]):
    class Broken:
        def build(self, messages: Any, system: str, summary: Any) -> Any:
            return given(messages)

    use(bench, "context_view", Broken)
    ground = await bench.open()
    _, events = await ground.chat("hello", agent="chosen")
    assert events[-1].data["code"] == "policy_failed"
    assert "The context_view policy acme" in events[-1].data["message"]
    assert ground.scripted.requests == []


class Diary:
    """Summarises after every second message of the user."""

    sizes: list[ContextSize]
    jobs: list[SummaryJob]

    def __init__(self, asks: bool = True) -> None:
        self.sizes, self.jobs, self.asks = [], [], asks

    def due(self, size: ContextSize) -> bool:
        self.sizes.append(size)
        return size.user_messages > 2

    async def summarise(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        return f"DIARY: {await job.ask('Write a diary.', job.transcript[0])}" if self.asks else ""


@pytest.mark.req("EXT-04", "EXEC-15")
async def test_a_summarisation_decides_when_and_what(bench: Bench):
    diary = Diary()
    use(bench, "summarisation", lambda: diary)
    ground = await bench.open()
    ground.scripted.on("## User\nfirst", say("They met."))
    submitted, _ = await ground.chat("first", agent="chosen")
    await ground.chat("second", submitted.session_id)
    assert diary.jobs == []
    _, events = await ground.chat("third", submitted.session_id)
    assert events[-1].type == "done"
    [job] = diary.jobs
    assert job.transcript[0] == "## User\nfirst"
    assert diary.sizes[-1].window > 1000
    asked = [
        seen for seen in ground.scripted.requests if seen.messages[0]["content"] == "Write a diary."
    ]
    assert len(asked) == 1
    assert "DIARY: They met." in ground.scripted.requests[-1].messages[1]["content"]
    async with ground.database.work() as work:
        purposes = {row.purpose for row in await work.usage.of_run(events[-1].run_id)}
    assert purposes == {"turn", "summary"}
    assert len(await ground.history(submitted.session_id)) == 6


@pytest.mark.req("EXT-04", "EXEC-13")
async def test_a_summarisation_that_gives_nothing_loses_no_message(bench: Bench):
    diary = Diary(asks=False)
    use(bench, "summarisation", lambda: diary)
    ground = await bench.open()
    submitted, _ = await ground.chat("first", agent="chosen")
    await ground.chat("second", submitted.session_id)
    _, events = await ground.chat("third", submitted.session_id)
    assert events[-1].type == "done"
    assert len(diary.jobs) == 1
    sent = [
        one["content"] for one in ground.scripted.requests[-1].messages if one["role"] == "user"
    ]
    assert sent == ["first", "second", "third"]


@pytest.mark.req("EXT-04", "EXEC-06")
@pytest.mark.parametrize(
    ("verdicts", "requests", "last"),
    [
        ([("continue", "Say more."), ("complete", "")], 2, "done"),
        ([("blocked", "Which one?")], 1, "interrupt"),
        ([("perhaps", "x")], 1, "done"),
        ([RuntimeError("inside")], 1, "done"),
    ],
)
async def test_a_review_judges_answers_and_its_failure_lets_them_stand(
    bench: Bench, verdicts: list[Any], requests: int, last: str
):
    jobs: list[ReviewJob] = []

    class Judge:
        async def review(self, job: ReviewJob) -> Any:
            jobs.append(job)
            verdict = verdicts.pop(0)
            if isinstance(verdict, Exception):
                raise verdict
            return verdict

    use(bench, "completion_review", Judge)
    ground = await bench.open()
    ground.scripted.play(say("An answer."), say("More."))
    failing = verdicts[0] not in [("continue", "Say more."), ("blocked", "Which one?")]
    _, events = await ground.chat("work", agent="chosen")
    assert events[-1].type == last
    assert len(ground.scripted.requests) == requests
    assert jobs[0].answer == "An answer."
    told = [one.data["message"] for one in events if one.type == "progress"]
    assert any("could not be reviewed" in one for one in told) is failing
    assert "inside" not in json.dumps(told)


@pytest.mark.req("EXT-04", "EXT-10")
async def test_a_gateway_stands_before_the_model_and_what_it_raises_is_named(bench: Bench):
    class Gate:
        def wrap(self, model: Any) -> Any:
            return Counted(model)

    class Counted:
        def __init__(self, model: Any) -> None:
            self.name, self.provider = model.name, "gate"
            self.context_window, self.max_output = model.context_window, model.max_output
            self.is_demo, self.model = False, model

        async def ask(self, messages: Any, **more: Any) -> Any:
            if "forbidden" in str(messages[-1].content):
                raise LookupError("/srv/secret")
            return await self.model.ask(messages, **more)

    use(bench, "model_gateway", Gate)
    ground = await bench.open()
    ground.scripted.play(say("Hello there, you."))
    submitted, events = await ground.chat("hi", agent="chosen")
    assert text_of(events) == "Hello there, you."
    _, events = await ground.chat("forbidden", submitted.session_id)
    assert events[-1].data["code"] == "provider_error"
    assert "/srv/secret" not in str([one.data for one in events])


class NoMethods:
    pass


class SyncReview:
    def review(self, job: ReviewJob) -> None: ...


class TwoArguments:
    def due(self, size: Any, more: Any) -> None: ...

    async def summarise(self, job: Any) -> None: ...


@pytest.mark.req("EXT-04", "EXT-05")
def test_faulty_policies_are_collected_with_their_cures():
    registry = Registry(where="a/extension.py", extension="acme")
    registry.register_policy("sumarisation", NoMethods)
    registry.register_policy("summarisation", NoMethods, name="no name")
    registry.register_policy("summarisation", NoMethods, name="default")
    registry.register_policy("context_view", NoMethods)
    registry.register_policy("context_view", LastWords, name="last")
    registry.register_policy("context_view", LastWords, name="last")
    registry.register_policy("completion_review", SyncReview)
    registry.register_policy("summarisation", TwoArguments, name="two")
    registry.register_policy("summarisation", lambda _: Diary(), name="takes")
    registry.register_policy("model_gateway", lambda: 1 / 0, name="fails")
    registry.register_policy("model_gateway", "gate", name="text")  # type: ignore[arg-type]
    registry.register_agent("assistant", policies={"context_view": "lst"})
    registry.register_agent("one", policies={"review": "x", "model_gateway": "fails"})
    registry.register_agent("two", policies=["last"])
    with pytest.raises(ConfigError) as caught:
        assemble(registry)
    assert [fault.what for fault in caught.value.faults] == [
        "policies is no mapping of kinds to names.",
        "There is no such kind of policy.",
        "This name is not allowed.",
        "This name stands for the product's own decision.",
        "What its factory gives, NoMethods, has no build().",
        "A context_view policy of that name is registered already.",
        "Its review() has another shape.",
        "Its due() has another shape.",
        "It does not work without arguments.",
        "Its factory failed: ZeroDivisionError: division by zero.",
        "Its factory cannot be called.",
        "policies names 'lst', which is no context_view policy.",
        "policies names the kind 'review'.",
    ]
    cures = [fault.cure for fault in caught.value.faults]
    assert all(cures)
    assert cures[1].startswith("Did you mean 'summarisation'?")
    assert cures[-2].startswith("Did you mean 'last'?")
