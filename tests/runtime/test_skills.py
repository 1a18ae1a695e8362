"""Skills that extensions bring: taken up at the start, and looked after by `/health`."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.registry import Registry
from core.tooling import AgentSpec
from runtime.registry import assemble
from runtime.skills import Skills, library_of, skill_parts
from tests.tools.skill_folders import ANN, put


def registry(folder: Path | str) -> Registry:
    made = Registry(where="weather/extension.py")
    made.register_agent("assistant", "Helps.", "Be brief.")
    made.register_skills(folder)
    return made


@pytest.mark.req("SKILL-01", "EXT-04")
async def test_skills_of_an_extension_are_offered_and_their_faults_are_in_health(tmp_path: Path):
    put(tmp_path / "skills", "forecast")
    skills = Skills(library_of(assemble(registry(str(tmp_path / "skills"))), tmp_path / "data"))
    item = (await skills.list(ANN))[1]
    assert item["id"] == "forecast"
    assert (item["source"], item["where"]) == ("extension", "weather/extension.py")
    assert (await skills.health()).status == "ok"

    (tmp_path / "skills" / "storm").mkdir()
    part = await skills.health()
    assert (part.status, part.needed, part.facts) == ("degraded", False, {"broken": 1})
    assert part.cause == "weather/extension.py: storm: It has no SKILL.md."
    assert part.cure.startswith("Add a SKILL.md")
    assert str(tmp_path) not in part.cause + part.cure


@pytest.mark.req("SKILL-01")
async def test_many_faults_are_counted_and_only_some_spelled_out(tmp_path: Path):
    for number in range(7):
        (tmp_path / "skills" / f"s{number}").mkdir(parents=True)
    skills = Skills(library_of(assemble(registry(tmp_path / "skills")), tmp_path / "data"))
    part = await skills.health()
    assert part.facts == {"broken": 7}
    assert part.cause.endswith("s4: It has no SKILL.md. And 2 more.")
    assert part.cure.count("Add a SKILL.md") == 1


@pytest.mark.req("SKILL-01", "EXT-05")
@pytest.mark.parametrize("kind", ["missing", "file", "link"])
def test_a_folder_that_is_none_stops_the_start(tmp_path: Path, kind: str):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError) as error:
        assemble(registry(tmp_path / kind))
    [fault] = error.value.faults
    assert fault.where == "weather/extension.py"
    assert f"names {kind!r}" in fault.what
    assert "Path(__file__).parent" in fault.cure


@pytest.mark.req("SKILL-01")
async def test_an_agent_without_the_tool_is_told_of_no_skills(tmp_path: Path):
    put(tmp_path / "skills", "forecast")
    shelf = await library_of(assemble(registry(tmp_path / "skills")), tmp_path).shelf(ANN)
    assert skill_parts(AgentSpec("a", "A", "", "", ("now",)), shelf) == []
    [part] = skill_parts(AgentSpec("a", "A", "", "", ("load_skill",)), shelf)
    assert part.name == "skills"
    assert "- forecast: Does it." in part.text


@pytest.mark.req("SKILL-01")
async def test_a_users_folder_that_is_a_link_is_reported_to_them(tmp_path: Path):
    put(tmp_path / "elsewhere", "secret")
    own = tmp_path / "data" / "workspaces" / "w1" / "ann" / "skills"
    own.parent.mkdir(parents=True)
    own.symlink_to(tmp_path / "elsewhere")
    items = await Skills(library_of(assemble(registry(tmp_path)), tmp_path / "data")).list(ANN)
    assert "secret" not in {item["id"] for item in items}
    assert "link" in items[-1]["fault"]["cause"]
    assert items[-1]["source"] == "user"
