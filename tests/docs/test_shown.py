"""What docs/extensions.md shows without tests of its own does what the text beside it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.settings import load_settings
from extensions import Registry
from extensions.testing import ScriptedModel, call, load, running
from providers.registry import ModelRegistry
from tests.house.tree import ROOT
from tests.support.extension_folders import forgotten
from tests.support.snippets import examples_in

pytestmark = pytest.mark.req("EXT-04", "EXT-13")


@pytest.fixture
def shown(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder of the example that a section shows."""
    [example] = [
        one for one in examples_in(ROOT / "docs" / "extensions.md") if one.section == request.param
    ]
    place = tmp_path / "shown_example"
    place.mkdir()
    for file, code in example.files.items():
        (place / file).write_text(code, encoding="utf-8")
    with forgotten():
        yield place


@pytest.mark.parametrize("shown", ["Policies"], indirect=True)
async def test_the_policies_send_an_answer_back_and_show_recent_messages_only(shown: Path) -> None:
    model = ScriptedModel("It is so.", "NO", "It is so (Handbook).", "YES", *["Yes. YES"] * 12)
    async with running(shown, model) as runner:
        result = await runner.ask("first", agent="writer")
        assert result.answer == "It is so (Handbook)."
        for _ in range(6):
            await runner.ask("more")
    turns = [one for one in model.requests if "You write." in str(one.messages[0])]
    assert "first" in str(turns[1].messages)
    assert "first" not in str(turns[-1].messages)


@pytest.mark.parametrize("shown", ["Components"], indirect=True)
async def test_the_tool_shows_its_card(shown: Path) -> None:
    model = ScriptedModel(call("show_weather", city="Bern"), "As you see.")
    async with running(shown, model) as runner:
        result = await runner.ask("weather?", agent="weather")
    [card] = result.of("component")
    assert card["component_type"] == "shown_example.weather"
    assert card["data"] == {"city": "Bern", "degrees": 21}


@pytest.mark.parametrize("shown", ["Model providers"], indirect=True)
async def test_the_gateway_makes_the_model_that_the_settings_name(shown: Path) -> None:
    assembly = load(shown).assembly
    said = {
        "MODEL_PROVIDER": "gateway",
        "OPENAI_MODEL": "large",
        "OPENAI_API_KEY": "sk-shown-0123456789",
    }
    models = ModelRegistry(
        load_settings(None, said).settings, SystemClock(), assembly.model_providers
    )
    model = models.get(None)
    assert (model.name, model.provider) == ("large", "gateway")
    await models.aclose()


@pytest.mark.parametrize("shown", ["the beginning"], indirect=True)
async def test_the_counter_counts_words(shown: Path) -> None:
    model = ScriptedModel(call("count_words", text="a fan moves air"), "Four.")
    async with running(shown, model) as runner:
        result = await runner.ask("How many?", agent="counter")
    assert result.results[0].data == 4
    assert model.requests[0].tools == ["count_words", "read_file"]


@pytest.mark.parametrize("shown", ["Delegating"], indirect=True)
async def test_the_chief_gives_tasks_to_an_agent_and_to_a_graph(shown: Path) -> None:
    model = ScriptedModel(
        call("delegate", agent="researcher", task="Find out why."),
        "Because.",
        call("delegate", agent="reporter", task='{"city": "Oslo", "days": 2}'),
        call("delegate", agent="reporter", task='{"days": 2}'),
        "Done.",
    )
    async with running(shown, model) as runner:
        result = await runner.ask("Go.", agent="chief")
    assert [one.status for one in result.results] == ["completed", "completed", "failed"]
    assert result.results[0].data == "Because."
    assert "Oslo, day 2: fine" in str(result.results[1].data)
    assert "You research." in model.requests[1].system


@pytest.mark.parametrize("shown", ["Services"], indirect=True)
async def test_the_tool_uses_the_service(shown: Path) -> None:
    model = ScriptedModel(call("look_up", word="fan"), "It moves air.")

    def librarian(registry: Registry) -> None:
        registry.register_agent("librarian", tools=["look_up"])

    async with running(load(shown, librarian), model) as runner:
        result = await runner.ask("Fan?", agent="librarian")
    assert result.results[0].data == "moves air"


@pytest.mark.parametrize("shown", ["Middleware"], indirect=True)
async def test_the_middleware_ask_for_politeness_and_hide_addresses(shown: Path) -> None:
    model = ScriptedModel("Write to ann@example.org, please.")
    async with running(shown, model) as runner:
        result = await runner.ask("Whom do I ask?")
    assert result.answer == "Write to [REDACTED_EMAIL], please."
    assert model.requests[0].system.endswith("Be polite.")


def test_every_example_without_tests_of_its_own_is_used_here() -> None:
    shown = {one.section for one in examples_in(ROOT / "docs" / "extensions.md") if not one.tests}
    used = {
        section
        for test in globals().values()
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "parametrize"
        for section in mark.args[1]
    }
    assert shown == used
