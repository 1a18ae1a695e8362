"""A provider of an extension makes the model that the settings name, or the start says why not."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage

from core import errors
from core.clock import SystemClock
from core.errors import ConfigError, Fault
from core.providing import ModelConnection, ProviderSpec
from core.registry import Registry
from core.settings import Settings
from providers.registry import ModelRegistry
from runtime.providing import providers_of

ASK = [HumanMessage("hello")]


def registry_of(factory: Any, **settings: Any) -> ModelRegistry:
    fields: dict[str, Any] = {"model_provider": "acme", "openai_model": "big", **settings}
    spec = ProviderSpec("acme", factory, "acme/extension.py", "acme")
    return ModelRegistry(Settings(**fields), SystemClock(), [spec])


@pytest.mark.req("EXT-04")
async def test_the_chosen_provider_is_told_the_settings_and_makes_the_default_model():
    told: list[ModelConnection] = []

    def make(connection: ModelConnection) -> FakeListChatModel:
        told.append(connection)
        return FakeListChatModel(responses=["Hello."])

    models = registry_of(make, openai_base_url="http://gateway.test/v1", openai_api_key="sk-x")
    assert models.names() == ["big", "demo"]
    [connection] = told
    assert (connection.model, connection.base_url) == ("big", "http://gateway.test/v1")
    assert connection.api_key.get_secret_value() == "sk-x"
    assert "sk-x" not in repr(connection)
    model = models.get(None)
    assert (model.name, model.provider, model.is_demo) == ("big", "acme", False)
    assert (await model.ask(ASK, message_id="m")).text == "Hello."
    await models.aclose()


@pytest.mark.req("EXT-04")
def test_a_provider_that_nobody_chose_is_not_called():
    def make(_: ModelConnection) -> None:
        raise AssertionError("called")

    assert registry_of(make, model_provider="openai").names() == ["big", "demo"]
    assert registry_of(make, model_provider="demo").names() == ["demo"]


@pytest.mark.req("EXT-04", "EXT-05")
def test_an_unknown_provider_stops_the_start_with_the_one_that_was_meant():
    with pytest.raises(ConfigError) as caught:
        registry_of(lambda _: None, model_provider="acm")
    assert caught.value.faults == (
        Fault(
            "MODEL_PROVIDER",
            "There is no model provider 'acm'.",
            "Did you mean 'acme'? Known providers: acme, demo, openai.",
        ),
    )


async def later(_: ModelConnection) -> None: ...


def fails(_: ModelConnection) -> None:
    raise ValueError("no route to https://ann:hunter2secret@gateway")


@pytest.mark.req("EXT-04", "EXT-05")
@pytest.mark.parametrize(
    ("factory", "part"),
    [
        (fails, "ValueError: no route to"),
        (lambda _: "gpt", "gave str, which is no chat model"),
        (later, "gave coroutine"),
    ],
)
def test_a_factory_that_makes_no_model_is_a_fault_without_secrets(factory: Any, part: str):
    with pytest.raises(ConfigError) as caught:
        registry_of(factory)
    [fault] = caught.value.faults
    assert part in fault.what
    assert fault.where == "acme/extension.py: model provider 'acme'"
    assert "hunter2secret" not in str(caught.value)


class Own:
    """A model that an extension made itself."""

    name, provider, context_window, max_output, is_demo = "own", "own", 1000, 100, True

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def ask(self, messages: Any, **_: Any) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.mark.req("EXT-04")
async def test_a_model_of_ones_own_is_held_to_what_models_promise():
    own = Own(AIMessage("hi", id="x"), "hi", RuntimeError("/srv/secret"), SystemExit(1))
    model = registry_of(lambda _: own).get(None)
    assert (model.name, model.provider, model.is_demo) == ("own", "acme", False)
    answer = await model.ask(ASK, message_id="m1")
    assert (answer.id, answer.text) == ("m1", "hi")
    with pytest.raises(errors.ProviderJunk, match="acme answered with str"):
        await model.ask(ASK, message_id="m2")
    for _ in range(2):
        with pytest.raises(errors.ProviderError) as caught:
            await model.ask(ASK, message_id="m3")
        assert "/srv/secret" not in str(caught.value.body())


@pytest.mark.req("EXT-05")
def test_faulty_declarations_are_collected():
    registry = Registry(where="a/extension.py")
    registry.register_model_provider("no name", lambda _: None)
    registry.register_model_provider("openai", lambda _: None)
    registry.register_model_provider("acme", lambda _: None)
    registry.register_model_provider("acme", lambda _: None)
    registry.register_model_provider("none", lambda: None)
    registry.register_model_provider("late", later)
    registry.register_model_provider("word", "x")  # type: ignore[arg-type]
    faults: list[Fault] = []
    assert [spec.name for spec in providers_of(registry.model_providers, faults)] == ["acme"]
    assert [fault.what for fault in faults] == [
        "This name is not allowed.",
        "This name is built in.",
        "a/extension.py registers a provider of that name already.",
        "It does not take exactly one argument.",
        "Its factory is no plain function.",
        "Its factory cannot be called.",
    ]
    assert all(fault.cure for fault in faults)
