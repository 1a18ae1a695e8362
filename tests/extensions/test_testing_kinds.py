"""`extensions.testing` runs every kind of thing that an extension brings as the product does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import pytest
from langchain.agents.middleware import AgentMiddleware, ModelRetryMiddleware, PIIMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

from core.errors import ConfigError, ProviderUnreachable
from core.providing import ModelConnection
from extensions import Registry, ToolContext, ToolDenied, define_tool
from extensions.hooks import RunStart, ToolCall, ToolResult
from extensions.policies import ContextSize, ReviewJob, SummaryJob, default_view
from extensions.testing import Request, ScriptedModel, call, load, running
from tests.extensions.desk import Desk

pytestmark = pytest.mark.req("EXT-13")


def with_desk(desk: Desk, more: Callable[[Registry], None]) -> Callable[[Registry], None]:
    """Return a setup that offers the desk, and more."""

    def setup(registry: Registry) -> None:
        desk.setup(registry)
        more(registry)

    return setup


# Middleware -------------------------------------------------------------------------------


@tool
def stamp(text: str) -> str:
    """Put a stamp on a text."""
    return f"{text} (stamped)"


class Polite(AgentMiddleware[Any, Any]):
    """Uses its service while a run goes on, and brings a tool along."""

    tools = [stamp]  # noqa: RUF012 - LangChain's own form

    def __init__(self, index: Mapping[str, str]) -> None:
        super().__init__()
        self._index = index

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        text = f"{request.system_message.text}\n\nA fan {self._index['fan']}."
        return await handler(request.override(system_message=SystemMessage(text)))


@pytest.mark.req("EXT-07")
async def test_middleware_of_an_extension_wraps_its_agents_with_the_running_services(
    desk: Desk,
) -> None:
    def more(registry: Registry) -> None:
        registry.register_middleware(
            "polite", lambda services: Polite(services["index"]), ["index"], ["desk"]
        )
        registry.register_middleware(
            "retry",
            lambda services: ModelRetryMiddleware(max_retries=1, initial_delay=0, jitter=False),
            targets=["desk"],
        )
        registry.register_middleware(
            "pii", lambda services: PIIMiddleware("email", apply_to_output=True), targets=["desk"]
        )

    extension = load(with_desk(desk, more))
    for _ in range(2):  # what was loaded may run again
        model = ScriptedModel(
            ProviderUnreachable("away"), call("stamp", text="x"), "Write to ann@example.org."
        )
        async with running(extension, model) as runner:
            result = await runner.ask("Stamp it.", agent="desk")
        assert result.results[0].data == "x (stamped)"
        assert result.answer == "Write to [REDACTED_EMAIL]."
        assert "A fan moves air." in model.requests[0].system
        assert "stamp" in model.requests[0].tools
        assert "ann@" not in str(result.of("token"))
    assert "stamp" not in extension.agents["desk"].tools
    assert desk.said == ["open", "closed"] * 2


@pytest.mark.req("EXT-07")
async def test_middleware_that_cannot_be_made_is_a_fault_and_the_services_are_closed(
    desk: Desk,
) -> None:
    def more(registry: Registry) -> None:
        made: list[int] = []

        def second_time(services: Mapping[str, Any]) -> Any:
            made.append(1)
            if len(made) > 1:
                raise ValueError("no second one")
            return Polite({})

        registry.register_middleware("polite", second_time, targets=["desk"])

    with pytest.raises(ConfigError, match="no second one"):
        async with running(with_desk(desk, more), ScriptedModel()):
            raise AssertionError("it started")
    assert desk.said == ["open", "closed"]


# Hooks ------------------------------------------------------------------------------------


@pytest.mark.req("EXT-10")
async def test_hooks_see_and_change_what_they_would_in_the_product(desk: Desk) -> None:
    seen: list[str] = []

    def begin(event: RunStart) -> RunStart | None:
        if "forbidden" in event.message:
            raise ToolDenied("Nobody asks that here.")
        return dataclasses.replace(event, message=f"{event.message} Please.")

    async def swap(event: ToolCall) -> ToolCall:
        return dataclasses.replace(event, args={"word": "fan"})

    def result(event: ToolResult) -> ToolResult:
        return dataclasses.replace(event, data=f"{event.data}!")

    def ended(event: Any) -> None:
        seen.append(f"{event.status}: {event.answer}")

    def more(registry: Registry) -> None:
        registry.register_hook("run.before", begin)
        registry.register_hook("tool_call.before", swap, agents=["desk"])
        registry.register_hook("tool_call.after", result, agents=["desk"])
        registry.register_hook("run.after", ended, observes=True)

    model = ScriptedModel(call("look_up", word="van"), "Done.")
    async with running(with_desk(desk, more), model) as runner:
        done = await runner.ask("What is a fan?", agent="desk")
        refused = await runner.ask("Something forbidden.")
    assert model.requests[0].last == "What is a fan? Please."
    assert (done.results[0].args, done.results[0].data) == ({"word": "fan"}, "moves air!")
    assert (refused.status, refused.error) == ("failed", "hook_refused")
    assert "Nobody asks that here." in refused.of("error")[0]["message"]
    assert seen[0] == "success: Done."


# Policies ---------------------------------------------------------------------------------


class LastWords:
    """Sends the last message alone."""

    def build(self, messages: Any, system: str, summary: Any) -> list[Any]:
        return default_view(messages[-1:], system)


class Diary:
    """Summarises with every turn but the first."""

    def due(self, size: ContextSize) -> bool:
        return size.user_messages > 1

    async def summarise(self, job: SummaryJob) -> str:
        return f"Diary of {len(job.transcript)}."


class Strict:
    """Is content with the second answer."""

    async def review(self, job: ReviewJob) -> tuple[str, str]:
        return ("complete", "") if job.answer == "Whole." else ("continue", "Say it whole.")


class Gate:
    """Lets nothing through as it is."""

    def wrap(self, model: Any) -> Any:
        gate = self

        class Wrapped(type(model)):
            def __init__(self) -> None:
                vars(self).update(vars(model))

            async def ask(self, messages: Any, **options: Any) -> AIMessage:
                said = await model.ask(messages, **options)
                return said.model_copy(update={"content": gate.change(said.text)})

        return Wrapped()

    def change(self, text: str) -> str:
        return f"<{text}>"


@pytest.mark.req("EXT-04")
async def test_each_kind_of_policy_decides() -> None:
    def setup(registry: Registry) -> None:
        for kind, factory in {
            "context_view": LastWords,
            "summarisation": Diary,
            "completion_review": Strict,
            "model_gateway": Gate,
        }.items():
            registry.register_policy(kind, factory, name="mine")
            registry.register_agent(kind, policies={kind: "mine"})

    model = ScriptedModel("Half.", "Whole.", "Plain.", "One.", "Two.", "Three.", "Four.")
    async with running(setup, model) as runner:
        assert (await runner.ask("Go.", agent="completion_review")).answer == "Whole."
        gated = await runner.ask("Go.", agent="model_gateway", new_session=True)
        assert gated.answer == "<Plain.>"
        await runner.ask("First.", agent="context_view", new_session=True)
        await runner.ask("Second.")
        assert [one.text for one in model.requests[-1].messages[1:]] == ["Second."]
        await runner.ask("First.", agent="summarisation", new_session=True)
        await runner.ask("Second.")
    assert "Diary of" in str(model.requests[-1].messages)


# Model providers --------------------------------------------------------------------------


class Acme(FakeListChatModel):
    """Speaks like a model, and takes tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self


def bring_acme(registry: Registry) -> None:
    def make(connection: ModelConnection) -> Acme:
        return Acme(responses=[f"I am {connection.model}."])

    registry.register_model_provider("acme", make)


@pytest.mark.req("EXT-04")
async def test_the_extensions_own_model_answers_where_no_script_is_given() -> None:
    settings = {"MODEL_PROVIDER": "acme", "OPENAI_MODEL": "big"}
    async with running(bring_acme, settings=settings) as runner:
        result = await runner.ask("Who are you?")
    assert (result.status, result.answer) == ("success", "I am big.")


@pytest.mark.req("EXT-04", "EXT-05")
async def test_without_script_and_provider_it_is_said_what_to_give() -> None:
    with pytest.raises(ConfigError, match=r"Pass a ScriptedModel.*MODEL_PROVIDER"):
        async with running(bring_acme):
            raise AssertionError("it started")
    with pytest.raises(ConfigError, match="Did you mean 'acme'"):
        load(bring_acme, settings={"MODEL_PROVIDER": "acm"})


# Components -------------------------------------------------------------------------------


@define_tool(group="cards")
def show(city: str, ctx: ToolContext) -> str:
    """Show a card.

    Args:
        city: what is on it.
    """
    return ctx.component("tested.weather", {"city": city})


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.req("EXT-04", "ART-10")
async def test_a_tool_shows_a_component() -> None:
    def setup(registry: Registry) -> None:
        registry.register_component("tested.weather", SCHEMA, {"city": "Oslo"})
        registry.register_agent("cards", tools=[show])

    async with running(setup, ScriptedModel(call("show", city="Bergen"), "Look.")) as runner:
        result = await runner.ask("Show it.", agent="cards")
    [card] = result.of("component")
    assert (card["component_type"], card["data"]) == ("tested.weather", {"city": "Bergen"})
    assert result.results[0].data == card["component_id"]


# Delegation and graphs --------------------------------------------------------------------


class Order(BaseModel):
    """What the reporter is asked for."""

    city: str


def report() -> Any:
    class Report(TypedDict):
        city: str
        line: str

    graph = StateGraph(Report)
    graph.add_node("fetch", lambda state: {"line": f"{state['city']}: fine"})
    graph.add_edge(START, "fetch")
    graph.add_edge("fetch", END)
    return graph


def parrot() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {"messages": [AIMessage(state["messages"][-1].text * 2)]})
    graph.add_edge(START, "say")
    graph.add_edge("say", END)
    return graph


@pytest.mark.req("EXEC-41")
async def test_an_agent_delegates_to_agents_and_graphs_and_the_user_is_asked_in_between(
    desk: Desk,
) -> None:
    def more(registry: Registry) -> None:
        registry.register_subgraph("reporter", "Reports.", report, input_schema=Order)
        registry.register_subgraph("parrot", "Repeats.", parrot)
        others = ["desk", "reporter", "parrot"]
        registry.register_agent("chief", prompt="Lead.", delegates=others)

    def told(request: Request) -> str:
        return f"Told: {request.last}"

    model = ScriptedModel(
        call("delegate", agent="desk", task="Note milk."),
        call("note", text="milk"),
        "Noted.",
        call("delegate", agent="reporter", task='{"city": "Oslo"}'),
        call("delegate", agent="parrot", task="ha"),
        told,
    )
    async with running(with_desk(desk, more), model) as runner:
        result = await runner.ask("Have milk noted.", agent="chief")
        assert result.question is not None
        assert result.question.calls[0]["args"] == {"text": "milk"}
        result = await runner.approve()
        content, _ = await runner.files.read("/workspace/notes.txt")
    assert content == b"milk\n"
    assert "haha" in result.answer
    own = [one for one in result.results if one.tool == "delegate"]
    assert [one.status for one in own] == ["completed"] * 3, own
    assert "Oslo: fine" in str(own[1].data)
    assert "Keep the desk tidy." in model.requests[1].system
    assert any(event.get("agent_id") for event in result.events)


# Names ------------------------------------------------------------------------------------


async def test_a_setup_function_of_a_folder_has_the_folders_name() -> None:
    def setup(registry: Registry) -> None:
        registry.register_agent("a")

    setup.__module__ = "extensions.airdesk.extension"
    assert load(setup).names == ("core", "airdesk")
    setup.__module__ = "tests.somewhere"
    assert load(setup).names == ("core", "tested")
    setup.__module__ = "extension"
    assert load(setup).names == ("core", "tested")
