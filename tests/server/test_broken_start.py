"""A start with many faults, by the real commands: all told together, and nothing was touched."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.server.test_extension_places import BROKEN
from tests.support.extension_folders import add
from tests.support.process import command

pytestmark = pytest.mark.req("EXT-05")

FAULT = re.compile(r"^  (?P<where>\S[^\n]*)\n    Cure: (?P<cure>\S[^\n]*)$", re.MULTILINE)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with everything that can be wrong, one extension each, and two that are not."""
    folder = tmp_path / "mine"
    for name, (code, _) in BROKEN.items():
        add(folder, name, code)
    add(folder, "sound", "def setup(registry):\n    registry.register_agent('sound')\n")
    add(folder, "asleep", "def enabled():\n    return False\ndef setup(registry): pass\n")
    deep = add(folder, "holds_link", "def setup(registry): pass\n") / "deep"
    deep.mkdir()
    (deep / "link.txt").symlink_to(tmp_path)
    return folder


def nobody_listens() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("database", ["embedded", "one that is away"])
@pytest.mark.parametrize("arguments", [("serve", "--port", "0"), ("extension", "list")])
def test_each_fault_is_told_with_file_and_cure_before_anything_is_opened(
    mine: Path, arguments: tuple[str, ...], database: str
) -> None:
    data = mine.parent / "data"
    settings = {"GW_EXTENSIONS_PATH": str(mine), "GW_DATA_DIR": str(data)}
    if database != "embedded":
        settings["DATABASE_URL"] = f"postgresql://nobody@127.0.0.1:{nobody_listens()}/none"
    ran = command(*arguments, settings=settings)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert not data.exists()
    told = {match["where"]: match["cure"] for match in FAULT.finditer(ran.stderr)}
    for name, (_, part) in BROKEN.items():
        [where] = [one for one in told if one.startswith(f"mine/{name}/extension.py: ")]
        assert part in f"{where} {told[where]}"
    assert "mine/holds_link: holds a symbolic link: deep/link.txt." in told
    assert len(told) == len(BROKEN) + 1, ran.stderr
    assert list(told) == sorted(told)
    assert f"has {len(told)} faults; nothing was started." in ran.stderr
    for hidden in ("Traceback", "abcdef123456", str(mine)):
        assert hidden not in ran.stdout + ran.stderr


def test_the_list_says_of_each_extension_how_it_is(mine: Path) -> None:
    listed = command("extension", "list", settings={"GW_EXTENSIONS_PATH": str(mine)})
    states = dict(line.split()[:2] for line in listed.stdout.splitlines())
    expected = {name: "faulty" for name in BROKEN if name != "Bad-Name"}
    expected |= {"core": "loaded", "demo": "loaded", "sound": "loaded"}
    expected |= {"context_demo": "disabled", "asleep": "disabled"}
    assert states == expected
