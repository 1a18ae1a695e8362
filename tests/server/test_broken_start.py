"""A start with a broken set of extensions, by the real commands: told whole, nothing touched."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.broken_extensions import BROKEN
from tests.support.extension_folders import add
from tests.support.process import command, end, start_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("EXT-05")

NEEDED = {
    "bad name": "Bad-Name",
    "clash with a built-in": "built_in",
    "missing docstring": "silent",
    "unknown tool": "unknown_tool",
    "cycle of services": "circle",
    "order cycle of middleware": "mw_circle",
    "unknown target": "mw_target",
    "approval tool not bound": "not_bound",
    "import error": "import_error",
    "validate_config": "wrong_config",
    "hook with a wrong signature": "hook_shape",
}
"""What a start has to find, and where the set has it; the symbolic link is put beside it."""

PLACE = re.compile(r"^  (?P<where>\S.*)\n    Cure: (?P<cure>\S.*)$", re.MULTILINE)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The folder of the broken set, with one extension in it that is sound."""
    folder = tmp_path / "mine"
    for name, (code, _) in BROKEN.items():
        add(folder, name, code)
    (folder / "linked").symlink_to(tmp_path)
    add(folder, "sound", "def setup(registry):\n    registry.register_agent('sound')\n")
    return folder


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that is taken and that nobody listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def settings_of(mine: Path) -> dict[str, str]:
    """Return what the command is told; only the provider that is chosen is ever made."""
    return {
        "GW_EXTENSIONS_PATH": str(mine),
        "GW_DATA_DIR": str(mine.parent / "data"),
        "MODEL_PROVIDER": "failing",
    }


def test_the_set_has_everything_that_a_start_has_to_find() -> None:
    assert set(NEEDED.values()) <= set(BROKEN)


@pytest.mark.parametrize("place", ["a server that is away", "embedded"])
def test_serve_tells_all_faults_with_file_and_cure_and_touches_no_database(
    mine: Path, nobody: int, place: str
) -> None:
    settings = settings_of(mine)
    if place != "embedded":
        settings["DATABASE_URL"] = f"postgresql://nobody@127.0.0.1:{nobody}/none"
    ended = command("serve", "--port", "0", settings=settings)
    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == ""
    told = [found["where"] for found in PLACE.finditer(ended.stderr)]
    expected = len(BROKEN) + 1
    assert f"The configuration has {expected} faults; nothing was started." in ended.stderr
    assert len(told) == expected, ended.stderr
    for name in [*BROKEN, "linked"]:
        assert [line for line in told if line.startswith(f"mine/{name}")], name
    assert told == sorted(told, key=lambda line: line.split(":")[0])
    assert "mine/sound" not in ended.stderr
    for unwanted in ("Traceback", "abcdef123456", "Unavailable", str(mine.parent)):
        assert unwanted not in ended.stderr
    assert not (mine.parent / "data").exists()


def test_the_list_says_of_each_whether_it_is_faulty(mine: Path) -> None:
    settings = settings_of(mine)
    listed = command("extension", "list", settings=settings)
    assert listed.returncode == 3
    states = {line.split()[0]: line.split()[1] for line in listed.stdout.splitlines()}
    # What may not be imported at all has no name; the list of faults has it.
    assert {name for name, state in states.items() if state == "faulty"} == set(BROKEN) - {
        "Bad-Name"
    }
    assert (states["sound"], states["core"], states["context_demo"]) == (
        "loaded", "loaded", "disabled",
    )  # fmt: skip
    assert f"The configuration has {len(BROKEN) + 1} faults" in listed.stderr
    assert not (mine.parent / "data").exists()


SERVICES = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

NOTES = Path(__file__).parent / "notes"

def service(name, waits=False):
    @asynccontextmanager
    async def factory(services):
        note(name + " begins")
        while waits and not (NOTES.parent / "go on").exists():
            await asyncio.sleep(0.02)
        try:
            yield name
        finally:
            note(name + " closed")
    return factory

def note(text):
    with NOTES.open("a") as file:
        file.write(text + "\\n")

def setup(registry):
    registry.register_service("first", service("first"))
    registry.register_service("second", service("second", waits=True), requires=["first"])
    registry.register_service("third", service("third"), requires=["second"])
"""


@pytest.mark.req("EXT-06")
@pytest.mark.timeout(120)
def test_a_server_that_is_told_to_end_while_services_start_closes_those_that_run(
    tmp_path: Path, database_url: str
) -> None:
    place = add(tmp_path / "mine", "slow", SERVICES)
    notes = place / "notes"
    started = start_server(
        tmp_path / "data", DATABASE_URL=database_url, GW_EXTENSIONS_PATH=str(place.parent)
    )
    try:
        wait_until(lambda: notes.is_file() and "second begins" in notes.read_text(), "start")
        started.signal(signal.SIGTERM)
        wait_until(lambda: "ending before" in started.everything, "told to end")
        (place / "go on").touch()
        assert started.wait() == 0, started.everything
    finally:
        end(started)
    assert notes.read_text().splitlines() == [
        "first begins", "second begins", "second closed", "first closed",
    ]  # fmt: skip
    assert "ready" not in "\n".join(started.out)
