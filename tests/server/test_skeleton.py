"""`graphwright extension`: what it writes works at once, and it never writes over anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import Invalid
from core.settings import load_settings
from runtime import extending
from server import skeleton
from server.skeleton import FILES, write
from tests.support.extension_folders import add, forgotten
from tests.support.process import ROOT, command, environment

pytestmark = pytest.mark.req("EXT-12")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder; what is imported from below it is forgotten after the test."""
    with forgotten():
        yield tmp_path


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(PYTHONPATH=str(ROOT), PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_writes_a_folder_and_says_what_to_do_next(place: Path) -> None:
    made = command("extension", "new", "windmill", "--path", str(place / "mine"))
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == str(place / "mine" / "windmill")
    assert names_in(place / "mine") == ["windmill"]
    assert names_in(place / "mine" / "windmill") == [
        "README.md", "__init__.py", "extension.py", "test_windmill.py",
    ]  # fmt: skip
    for step in (
        f"GW_EXTENSIONS_PATH={place / 'mine'}",
        f".venv/bin/pytest {place / 'mine' / 'windmill'}",
        "make run",
        'chat --agent windmill -m \'windmill_find {"topic": "hours"}\'',
    ):
        assert step in made.stderr


def test_what_it_writes_passes_its_own_tests_by_plain_pytest_and_is_loaded(place: Path) -> None:
    write("windmill", place / "mine", ())
    ran = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "mine/windmill", cwd=place)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout
    listed = command("extension", "list", settings={"GW_EXTENSIONS_PATH": str(place / "mine")})
    assert listed.returncode == 0, listed.stderr
    [line] = [line for line in listed.stdout.splitlines() if line.startswith("windmill")]
    assert line.split() == ["windmill", "loaded", "agents:", "windmill;", "tools:", "windmill_find"]


@pytest.mark.parametrize("name", ["b", "a_very_long_name_that_is_just_allowed_01"])
def test_what_it_writes_passes_the_checks_of_the_project(place: Path, name: str) -> None:
    """Formatted, linted and typed like everything here, whatever the length of the name."""
    assert len(name) in (1, 40)
    write(name, place, ())
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", str(place)]
    for check in (["check"], ["format", "--check"]):
        ran = python("-m", "ruff", *check, *options, cwd=ROOT)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    (place / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{ROOT}"], "typeCheckingMode": "strict", "reportMissingTypeStubs": false}}'
    )
    ran = python(
        "-m", "basedpyright", "--project", str(place), "--pythonpath", sys.executable, cwd=place
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Air", "no allowed name"),
        ("9air", "no allowed name"),
        ("air desk", "no allowed name"),
        ("../air", "no allowed name"),
        ("", "no allowed name"),
        ("a" * 41, "no allowed name"),
        ("lambda", "a word of Python"),
        ("match", "a word of Python"),
        ("statistics", "Python's own library"),
        ("routing", "that extensions import"),
        ("testing", "that extensions import"),
        ("define_tool", "that extensions import"),
        ("annotations", "that extensions import"),
        ("wind-mill", "no allowed name"),
        ("风车", "no allowed name"),
        ("windmill\n", "no allowed name"),
        ("core", "is there already"),
        ("demo", "is there already"),
        ("langgraph", "an installed package"),
        ("runtime", "an installed package"),
        ("assistant", "an agent 'assistant'"),
    ],
)
def test_a_name_that_will_not_do_is_refused_before_anything_is_written(
    place: Path, name: str, told: str
) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        write(name, place / "mine", ())
    assert any(cure in caught.value.message for cure in ("Take another name", "Use 1 to 40"))
    assert names_in(place) == []


def test_a_name_that_another_folder_has_is_refused(place: Path) -> None:
    add(place / "other", "windmill", "def setup(registry): pass\n")
    with pytest.raises(Invalid, match="is there already; nothing is overwritten"):
        write("windmill", place / "mine", [place / "other"])
    add(place / "other", "maker", "def setup(registry):\n    registry.register_agent('windhelp')\n")
    with pytest.raises(Invalid, match="an agent 'windhelp' already"):
        write("windhelp", place / "mine", [place / "other"])
    assert names_in(place) == ["other"]


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_nothing_is_ever_overwritten(place: Path, kind: str) -> None:
    target = place / "windmill"
    match kind:
        case "file":
            target.write_text("mine")
        case "folder":
            target.mkdir()
        case _:
            target.symlink_to(place / "nowhere")
    with pytest.raises(Invalid, match="is there already"):
        write("windmill", place, ())
    assert names_in(place) == ["windmill"]
    assert (
        target.is_symlink() or target.read_text() == "mine"
        if kind != "folder"
        else not names_in(target)
    )


@pytest.mark.parametrize("left", [False, True], ids=["new folder", "folder that was there"])
def test_a_failure_half_way_leaves_nothing(
    place: Path, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if left:
        (place / "mine").mkdir()
    monkeypatch.setitem(FILES, "README.md.tmpl", "no_such_folder/README.md")
    with pytest.raises(Invalid, match=r"cannot be written to \(No such file.*--path FOLDER"):
        write("windmill", place / "mine", ())
    assert names_in(place) == (["mine"] if left else [])
    assert not left or names_in(place / "mine") == []


def test_a_folder_that_will_not_do_is_refused_with_the_cure(place: Path) -> None:
    (place / "file").write_text("")
    (place / "real").mkdir()
    (place / "link").symlink_to(place / "real")
    (place / "a:b").mkdir()
    (place / "work" / "notes").mkdir(parents=True)
    for folder, told in (
        ("missing/deeper", "is no folder. Make it"),
        ("file/deeper", "is no folder"),
        ("link", "is a symbolic link"),
        ("a:b", "in its name"),
        ("work", "holds folders that are no extensions: notes. Name a folder"),
    ):
        with pytest.raises(Invalid, match=told):
            write("windmill", place / folder, ())
    assert names_in(place / "real") == []


def test_the_line_for_dotenv_keeps_the_folders_that_are_named_already(place: Path) -> None:
    (place / "one").mkdir()
    made = write("windmill", place / "two", [place / "one"])
    assert made.dotenv == f"GW_EXTENSIONS_PATH={place / 'one'}{os.pathsep}{place / 'two'}"
    assert write("birdesk", place / "two", [place / "two"]).dotenv == ""


def test_a_folder_where_nothing_can_be_made_is_told_without_a_stack() -> None:
    """Not even the administrator can write there, so this is so whoever runs the tests."""
    for folder in ("/proc/self/fdinfo", "/proc/new"):
        made = command("extension", "new", "windmill", "--path", folder)
        assert (made.returncode, made.stdout) == (1, "")
        assert re.match(r"/proc\S* cannot be written to .*--path FOLDER\.\n\Z", made.stderr)


def test_the_line_for_dotenv_is_read_back_as_it_was_meant(place: Path) -> None:
    for name in ("plain", "with space", "a #b", "$HOME", "back\\slash", "导航"):
        folder = place / name
        made = write("windmill", folder, ())
        (place / ".env").write_text(f"{made.dotenv}\n", encoding="utf-8")
        assert load_settings(place / ".env", {}).settings.extensions_path == (folder,)
    load_settings(None, {})
    with pytest.raises(Invalid, match="in its name"):
        write("windmill", place / "it's", ())


@pytest.mark.parametrize("name", ["Air-Desk", "air-desk", "导航", "é", "async", "json", "-x", "_a"])
def test_an_odd_name_is_told_without_a_stack(place: Path, name: str) -> None:
    made = command("extension", "new", "--path", str(place), "--", name)
    assert (made.returncode, made.stdout) == (1, "")
    [line] = made.stderr.splitlines()
    assert repr(name) in line
    assert names_in(place) == []


def test_in_an_installed_package_the_folder_has_to_be_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skeleton, "checkout", lambda: None)
    with pytest.raises(Invalid, match="--path FOLDER"):
        write("windmill", None, ())
    made = write("windmill", place, ())
    assert made.chat.startswith("graphwright chat")


def test_in_a_checkout_it_goes_into_the_room_of_extensions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = place / "checkout" / "extensions"
    room.mkdir(parents=True)
    (place / "checkout" / "pyproject.toml").write_text("")
    monkeypatch.setattr(extending, "BUNDLED", room)
    made = write("windmill", None, ())
    assert made.place == room / "windmill"
    assert (made.dotenv, made.test) == ("", "make test ARGS=extensions/windmill")


def test_the_list_tells_faults_with_file_and_cure_and_touches_no_database(place: Path) -> None:
    add(place / "mine", "broken", "import nothing_of_that_name\n")
    add(place / "mine", "good", "def setup(registry):\n    registry.register_agent('good')\n")
    data = place / "data"
    listed = command(
        "extension", "list",
        settings={"GW_EXTENSIONS_PATH": str(place / "mine"), "GW_DATA_DIR": str(data)},
    )  # fmt: skip
    assert listed.returncode == 3
    assert "good" in listed.stdout
    assert "context_demo  disabled" in listed.stdout
    assert "mine/broken/extension.py: cannot be imported" in listed.stderr
    assert "Cure: Install the package that provides nothing_of_that_name" in listed.stderr
    assert not data.exists()
