"""`extensions.testing` loads an extension with all checks of a start, and runs anywhere."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import extensions.context_demo.extension
import extensions.core.extension
import extensions.demo.extension
from core.errors import ConfigError, ServiceMissing
from extensions import Registry, get_service, get_setting
from extensions.testing import ScriptedModel, call, load, running
from tests.extensions.desk import Desk
from tests.support.extension_folders import add, forgotten
from tests.support.process import ROOT, environment

pytestmark = pytest.mark.req("EXT-13")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with forgotten():
        yield tmp_path


FOLDER = """
from extensions import get_setting

def enabled():
    return get_setting("DESK_ON", True)

def validate_config():
    if get_setting("DESK_URL", "") == "":
        raise ValueError("DESK_URL is missing")

def setup(registry):
    registry.register_agent("from_folder", tools=["now"])
"""


@pytest.mark.parametrize("form", ["folder", "text", "file"])
def test_a_folder_is_loaded_with_its_switch_its_check_and_the_settings_given(
    place: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_URL", "of the developer")
    folder = add(place, "desk", FOLDER)
    source = {"folder": folder, "text": str(folder), "file": folder / "extension.py"}[form]
    with pytest.raises(ConfigError, match="DESK_URL is missing"):
        load(source)
    with pytest.raises(ConfigError, match="switched off"):
        load(source, settings={"DESK_ON": "0"})
    extension = load(source, settings={"DESK_URL": "http://desk"})
    assert extension.names == ("core", "desk")
    assert extension.agents["from_folder"].tools == ("now",)
    assert get_setting("DESK_URL") == "http://desk"


def test_all_faults_are_told_with_their_cures(place: Path) -> None:
    code = (
        "from fastapi import APIRouter\nrouter = APIRouter()\n"
        "@router.get('/x')\nasync def x(): ...\n"
        "def setup(registry):\n    registry.register_router(router)\n"
        "    registry.register_agent('bad name', tools=['calculat'])\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(add(place, "desk", code), settings={"HITL_TOOLS": "nothing"})
    told = [f"{fault.what} {fault.cure}" for fault in caught.value.faults]
    assert all(fault.cure for fault in caught.value.faults)
    for part in ("states no permission", "not allowed", "'calculate'?", "no tool 'nothing'"):
        assert [one for one in told if part in one], part


def test_a_folder_that_is_none_and_a_setup_that_fails_are_faults(place: Path) -> None:
    (place / "empty").mkdir()
    for folder, told in (
        (place / "nowhere" / "deeper", "no folder"),
        (place / "empty", "has no extension.py"),
        (place / "missing", "has no extension.py"),
    ):
        with pytest.raises(ConfigError, match=told):
            load(folder)

    def early(registry: Registry) -> None:
        get_service("index")

    with pytest.raises(ConfigError, match="services start later"):
        load(early)


def test_several_extensions_are_checked_together(desk: Desk) -> None:
    def other(registry: Registry) -> None:
        registry.register_agent("second", tools=["look_up"])

    assert load(desk.setup, other).agents["second"].tools == ("look_up",)
    with pytest.raises(ConfigError, match="look_up"):
        load(other)


async def test_a_service_that_cannot_start_is_a_fault_and_the_others_are_closed(
    desk: Desk,
) -> None:
    @asynccontextmanager
    async def broken(services: Mapping[str, Any]) -> AsyncIterator[None]:
        raise OSError("no such host")
        yield

    def setup(registry: Registry) -> None:
        desk.setup(registry)
        registry.register_service("remote", broken, ["index"])

    with pytest.raises(ConfigError, match="no such host"):
        async with running(setup, ScriptedModel()):
            raise AssertionError("it started")
    assert desk.said == ["open", "closed"]
    with pytest.raises(ServiceMissing):
        get_service("index")


# What comes with the product --------------------------------------------------------------


@pytest.mark.req("EXT-12")
async def test_the_shipped_extensions_work_from_python_with_nothing_else() -> None:
    room = {"volume_m3": 120, "air_changes_per_hour": 4}
    cases = [
        (extensions.core.extension, "assistant", call("calculate", expression="17*23"), 391),
        (extensions.demo.extension, "ventilation", call("airflow", **room), 480),
        (extensions.context_demo.extension, "glossary", call("explain_term", term="duct loss"), 0),
    ]
    for module, agent, made, expected in cases:
        extension = load(module, settings={"CONTEXT_DEMO_ENABLED": "1"})
        async with running(extension, ScriptedModel(made, "Done.")) as runner:
            result = await runner.ask("Work.", agent=agent)
        assert result.answer == "Done."
        assert result.results[0].status == "completed", result
        assert str(expected or "friction") in str(result.results[0].data)


def test_it_needs_neither_pytest_nor_a_driver_of_the_database_to_be_connected() -> None:
    """A plain script in a folder of its own: no conftest, no plugin, `asyncio.run`."""
    code = (
        "import asyncio, sys\n"
        "from extensions.testing import ScriptedModel, running\n"
        "async def talk():\n"
        "    async with running(lambda registry: None, ScriptedModel('Hello.')) as runner:\n"
        "        return (await runner.ask('Hi.')).answer\n"
        "print(asyncio.run(talk()), 'pytest' in sys.modules)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env=environment(PYTHONPATH=str(ROOT), DATABASE_URL="postgresql://nobody@127.0.0.1:1/x"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.stdout.strip() == "Hello. False", told.stderr


def test_runs_of_one_process_do_not_see_each_other(desk: Desk) -> None:
    async def one(text: str) -> list[str]:
        model = ScriptedModel(call("note", text=text), "Kept.")
        async with running(Desk().setup, model) as runner:
            await runner.ask("x", agent="desk")
            await runner.approve()
            return (await runner.files.read("/workspace/notes.txt"))[0].decode().split()

    async def both() -> list[list[str]]:
        return await asyncio.gather(one("milk"), one("tea"))

    assert asyncio.run(both()) == [["milk"], ["tea"]]
