"""What docs/extensions.md shows without tests of its own does what the text beside it says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.settings import load_settings
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
    said = {"MODEL_PROVIDER": "gateway", "OPENAI_MODEL": "large", "OPENAI_API_KEY": "k" * 20}
    models = ModelRegistry(
        load_settings(None, said).settings, SystemClock(), assembly.model_providers
    )
    model = models.get(None)
    assert (model.name, model.provider) == ("large", "gateway")
    await models.aclose()
