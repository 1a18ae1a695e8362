"""Every kind of thing an extension brings works under `extensions.testing` as in the product."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ToolCallLimitMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

import extensions.context_demo.extension
from core.errors import ConfigError, Invalid
from extensions import Registry, ToolContext, ToolDenied, define_tool
from extensions.hooks import RunStart, ToolCall
from extensions.policies import ReviewJob, default_view
from extensions.testing import ScriptedModel, call, load, running, say

pytestmark = pytest.mark.req("EXT-13")


@define_tool(group="kinds", idempotent=True)
def weigh(thing: str) -> str:
    """Weigh a thing.

    Args:
        thing: what is weighed.
    """
    return f"{thing}: 3 kg"


# Middleware -------------------------------------------------------------------------------


class Shouting(AgentMiddleware[Any, Any]):
    """Puts the service's word into the prompt, and shouts the answer."""

    def __init__(self, services: Mapping[str, Any]) -> None:
        super().__init__()
        self.services = services

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        text = f"{request.system_message.text}\n\n{self.services['word']['text']}"
        answer = await handler(request.override(system_message=SystemMessage(text)))
        [turn] = answer.result
        return AIMessage(turn.text.upper(), id=turn.id, tool_calls=turn.tool_calls)


def with_middleware(registry: Registry) -> None:
    @asynccontextmanager
    async def open_word(services: Mapping[str, Any]) -> AsyncIterator[dict[str, str]]:
        yield {"text": "Say it kindly."}

    registry.register_service("word", open_word)
    registry.register_agent("loud", tools=[weigh])
    registry.register_middleware("shouting", Shouting, requires=["word"], targets=["loud"])
    registry.register_middleware(
        "few_calls",
        lambda services: ToolCallLimitMiddleware(run_limit=1, exit_behavior="continue"),
        targets=["loud"],
    )


@pytest.mark.req("EXT-07")
async def test_middleware_is_made_with_the_running_services_and_wraps_the_run() -> None:
    extension = load(with_middleware)
    for word in ("fine", "good"):  # what one runner was given is nothing to the next
        model = ScriptedModel(call("weigh", thing="fan"), call("weigh", thing="duct"), word)
        async with running(extension, model) as runner:
            result = await runner.ask("Weigh both.", agent="loud")
        assert result.answer == word.upper()
        assert "Say it kindly." in model.requests[0].system
        assert result.results[0].data == "fan: 3 kg"
        assert "limit" in model.requests[2].last


@pytest.mark.req("EXT-07", "EXT-12")
async def test_the_shipped_middleware_explains_terms_of_the_question() -> None:
    model = ScriptedModel("It grows.")
    on = {"CONTEXT_DEMO_ENABLED": "1"}
    async with running(extensions.context_demo.extension, model, settings=on) as runner:
        await runner.ask("Does duct loss grow with speed?", agent="glossary")
    assert "Pressure that air loses by friction" in model.requests[0].system


async def test_middleware_that_fails_with_the_real_services_is_a_fault_and_they_are_closed() -> (
    None
):
    said: list[str] = []

    @asynccontextmanager
    async def open_word(services: Mapping[str, Any]) -> AsyncIterator[dict[str, str]]:
        yield {"text": "x"}
        said.append("closed")

    def setup(registry: Registry) -> None:
        registry.register_service("word", open_word)
        registry.register_middleware(
            "picky",
            lambda services: Shouting(services) if not isinstance(services["word"], dict) else None,
            requires=["word"],
        )

    with pytest.raises(ConfigError, match="picky"):
        async with running(setup, ScriptedModel()):
            raise AssertionError("it started")
    assert said == ["closed"]


# Hooks ------------------------------------------------------------------------------------


def with_hooks(registry: Registry) -> None:
    def friendlier(event: RunStart) -> RunStart:
        return dataclasses.replace(event, message=f"Please: {event.message}")

    async def no_lead(event: ToolCall) -> ToolCall | None:
        if event.args["thing"] == "lead":
            raise ToolDenied("Lead is not weighed here.")
        return dataclasses.replace(event, args={"thing": f"clean {event.args['thing']}"})

    registry.register_agent("scales", tools=[weigh])
    registry.register_hook("run.before", friendlier)
    registry.register_hook("tool_call.before", no_lead, agents=["scales"])


@pytest.mark.req("EXT-10")
async def test_hooks_change_the_message_and_the_call_and_deny_one() -> None:
    both = say("", call("weigh", thing="fan"), call("weigh", thing="lead"))
    model = ScriptedModel(both, "Done.")
    async with running(with_hooks, model) as runner:
        result = await runner.ask("Weigh it.", agent="scales")
    assert model.requests[0].last == "Please: Weigh it."
    assert result.results[0].data == "clean fan: 3 kg"
    assert (result.results[1].status, result.results[1].error) == (
        "denied", "Lead is not weighed here.",
    )  # fmt: skip


async def test_a_hook_that_refuses_ends_the_run_by_its_name() -> None:
    def closed(event: RunStart) -> None:
        raise ToolDenied("We are closed.")

    def setup(registry: Registry) -> None:
        registry.register_hook("run.before", closed)

    async with running(setup, ScriptedModel()) as runner:
        result = await runner.ask("Hello.")
    assert (result.status, result.error) == ("failed", "hook_refused")


# Policies ---------------------------------------------------------------------------------


class Thorough:
    """Wants a second answer before it is content."""

    async def review(self, job: ReviewJob) -> tuple[str, str]:
        return ("complete", "") if "really" in job.answer else ("continue", "Are you sure?")


class LastOnly:
    """Sends the last message alone."""

    def build(self, messages: Any, system: str, summary: Any) -> list[Any]:
        return default_view(messages[-1:], system)


class Counted:
    """Counts what is asked."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def wrap(self, model: Any) -> Any:
        asked = self.asked

        class Gateway:
            def __getattr__(self, name: str) -> Any:
                return getattr(model, name)

            async def ask(self, messages: Any, **options: Any) -> Any:
                asked.append(messages[-1].text)
                return await model.ask(messages, **options)

        return Gateway()


@pytest.mark.req("EXT-04")
async def test_policies_review_the_answer_and_stand_before_the_model() -> None:
    asked: list[str] = []

    def setup(registry: Registry) -> None:
        registry.register_policy("completion_review", Thorough, "thorough")
        registry.register_policy("model_gateway", lambda: Counted(asked), "counted")
        policies = {"completion_review": "thorough", "model_gateway": "counted"}
        registry.register_agent("careful", policies=policies)

    model = ScriptedModel("Yes.", "Yes, really.")
    async with running(setup, model) as runner:
        result = await runner.ask("Is it so?", agent="careful")
    assert result.answer == "Yes, really."
    assert len(asked) == 2
    assert "Are you sure?" in asked[1]


@pytest.mark.req("EXT-04")
async def test_a_context_view_decides_what_the_model_is_sent() -> None:
    def setup(registry: Registry) -> None:
        registry.register_policy("context_view", LastOnly, "last")
        registry.register_agent("short", policies={"context_view": "last"})

    model = ScriptedModel("One.", "Two.")
    async with running(setup, model) as runner:
        await runner.ask("first", agent="short")
        await runner.ask("second")
    assert [one.type for one in model.requests[1].messages] == ["system", "human"]


# Model providers --------------------------------------------------------------------------


def with_provider(registry: Registry) -> None:
    registry.register_agent("talker")
    registry.register_model_provider(
        "parrot", lambda connection: FakeListChatModel(responses=[f"I am {connection.model}."])
    )


@pytest.mark.req("EXT-04")
async def test_without_a_script_the_provider_that_the_settings_name_answers() -> None:
    settings = {"MODEL_PROVIDER": "parrot", "OPENAI_MODEL": "polly"}
    async with running(with_provider, settings=settings) as runner:
        assert (await runner.ask("Who are you?", agent="talker")).answer == "I am polly."


async def test_without_a_script_and_a_provider_the_demo_model_answers() -> None:
    async with running(with_provider) as runner:
        result = await runner.ask('calculate {"expression": "17*23"}')
    assert result.results[0].data["value"] == 391


@pytest.mark.parametrize(
    ("name", "told"),
    [("parot", "Did you mean 'parrot'"), ("broken", "no cage"), ("nothing", "no chat model")],
)
def test_a_provider_that_makes_no_model_is_a_fault_as_at_a_start(name: str, told: str) -> None:
    def broken(connection: Any) -> Any:
        raise OSError("no cage")

    def setup(registry: Registry) -> None:
        with_provider(registry)
        registry.register_model_provider("broken", broken)
        registry.register_model_provider("nothing", lambda connection: None)

    assert "core" in load(setup).names
    with pytest.raises(ConfigError, match=told):
        load(setup, settings={"MODEL_PROVIDER": name})


# Components -------------------------------------------------------------------------------


@define_tool(group="kinds")
def show(weight: int, ctx: ToolContext) -> str:
    """Show a weight as a card.

    Args:
        weight: kilograms.
    """
    ctx.component("tested.weight", {"kg": weight})
    return "It is shown."


@pytest.mark.req("ART-10")
async def test_a_component_is_shown_and_one_that_does_not_fit_is_not() -> None:
    schema = {
        "type": "object",
        "properties": {"kg": {"type": "integer", "maximum": 9}},
        "required": ["kg"],
        "additionalProperties": False,
    }

    def setup(registry: Registry) -> None:
        registry.register_component("tested.weight", schema, {"kg": 1})
        registry.register_agent("shower", tools=[show])

    model = ScriptedModel(call("show", weight=3), call("show", weight=10), "Done.")
    async with running(setup, model) as runner:
        result = await runner.ask("Show it.", agent="shower")
    [shown] = result.of("component")
    assert (shown["component_type"], shown["data"]) == ("tested.weight", {"kg": 3})
    assert [one.status for one in result.results] == ["completed", "failed"]


# Delegation and graphs --------------------------------------------------------------------


class Order(BaseModel):
    """What the reporter is asked for."""

    city: str


class Report(TypedDict, total=False):
    """A state that is no conversation."""

    city: str
    text: str


def build_report() -> Any:
    graph = StateGraph(Report)
    graph.add_node("fetch", lambda state: {"text": f"{state['city']}: fine"})
    graph.add_edge(START, "fetch")
    return graph


def build_painter() -> Any:
    from langgraph.types import interrupt

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"It is {interrupt('Which colour?')}.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph


def with_delegates(registry: Registry) -> None:
    registry.register_agent("weigher", "Weighs.", tools=[weigh], approval_tools=["weigh"])
    registry.register_subgraph("reporter", "Reports.", build_report, input_schema=Order)
    registry.register_subgraph("painter", "Paints.", build_painter)
    registry.register_agent("chief", delegates=["weigher", "reporter", "painter"])


@pytest.mark.req("EXEC-41")
async def test_agents_and_graphs_take_tasks_ask_the_user_and_give_their_results() -> None:
    model = ScriptedModel(
        call("delegate", agent="weigher", task="Weigh the fan."),
        call("weigh", thing="fan"),
        "It has 3 kg.",
        call("delegate", agent="reporter", task='{"city": "Oslo"}'),
        call("delegate", agent="painter", task="Paint it."),
        "All done.",
    )
    async with running(with_delegates, model) as runner:
        result = await runner.ask("Do all three.", agent="chief")
        assert result.question is not None
        assert result.question.calls[0]["args"] == {"thing": "fan"}
        result = await runner.approve()
        assert result.question is not None
        assert result.question.message == "Which colour?"
        result = await runner.answer("green")
    assert result.answer == "All done."
    outcomes = [str(one.data) for one in result.results if one.tool == "delegate"]
    assert len(outcomes) == 3
    for part, said in zip(("3 kg", "Oslo: fine", "green"), outcomes, strict=True):
        assert part in said


@pytest.mark.req("EXEC-41")
async def test_a_graph_that_takes_no_messages_says_so() -> None:
    async with running(with_delegates, ScriptedModel()) as runner:
        with pytest.raises(Invalid, match="takes tasks of other agents only"):
            await runner.ask("Report.", agent="reporter")


# What needs the server --------------------------------------------------------------------


async def test_what_needs_the_database_says_so() -> None:
    async with running(with_hooks, ScriptedModel()) as runner:
        with pytest.raises(Invalid, match="needs the database"):
            await runner.ask("#session:0c2b1f7e-0000-4000-8000-000000000000 Go on.")
        with pytest.raises(Invalid, match="empty"):
            await runner.ask("  ")
