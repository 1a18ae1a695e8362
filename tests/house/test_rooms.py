"""Every folder at the top is a room with a place in the import contract, or says that it is none."""

import re
import tomllib

import pytest

from scripts import lint_house, lint_imports
from tests.house.tree import ROOT, folders_at_the_top

NO_ROOMS = {
    "frontend", "static", "tests", "benchmarks", "docs", "deploy", "scripts", "skills", "data",
}  # fmt: skip


@pytest.fixture(scope="module")
def contract() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def test_rooms_of_the_contract_are_the_folders_at_the_top(contract):
    folders = {name for name in folders_at_the_top() if not name.startswith(".")}
    assert folders - NO_ROOMS == set(contract["root_packages"])


def test_every_room_is_a_package_that_says_what_it_is(contract):
    for room in contract["root_packages"]:
        assert (ROOT / room / "__init__.py").read_text().startswith('"""'), room


def test_layers_name_every_room_but_the_client(contract):
    (layers,) = [c["layers"] for c in contract["contracts"] if c["type"] == "layers"]
    named = {room.strip() for layer in layers for room in layer.split("|")}
    assert named == set(contract["root_packages"]) - {"client"}


def test_every_room_below_the_server_has_a_door(contract):
    doors = {
        room
        for entry in contract["contracts"]
        if entry["type"] == "protected"
        for room in entry["protected_modules"]
    }
    # core is open to all; nobody may import the server and the client, as no door lets them in.
    assert doors - {"storage.tables"} == set(contract["root_packages"]) - {
        "core", "server", "client",
    }  # fmt: skip


def test_house_lint_and_packaging_know_the_same_rooms(contract):
    assert set(lint_house.ROOMS) == set(contract["root_packages"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packaged = project["tool"]["setuptools"]["packages"]["find"]["include"]
    # Skills hold no code, so no contract speaks of them.
    rooms = {name.rstrip("*") for name in packaged if not name.startswith("extensions.")}
    assert rooms - {"skills"} == set(contract["root_packages"])


def test_the_extensions_of_the_product_are_named_alike_where_own_ones_are_passed_over():
    """Own extensions lie in `extensions/` too: git, checks and the package leave them alone."""
    kept = re.findall(r"^!/extensions/(\w+)/$", (ROOT / ".gitignore").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    typed = project["tool"]["basedpyright"]["include"]
    assert {f"extensions/{name}" for name in kept} | {"extensions/*.py"} == {
        path for path in typed if path.startswith("extensions")
    }
    packaged = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {"extensions", *(f"extensions.{name}*" for name in kept)} == {
        name for name in packaged if name.startswith("extensions")
    }
    for name in kept:
        assert (ROOT / "extensions" / name / "extension.py").is_file()


def test_own_extensions_are_no_part_of_the_project(tmp_path):
    (tmp_path / ".gitignore").write_text("/extensions/*/\n!/extensions/core/\n")
    for name in ("core", "mine"):
        (tmp_path / "extensions" / name).mkdir(parents=True)
        (tmp_path / "extensions" / name / "extension.py").write_text("")
    assert lint_house.own_extensions(tmp_path) == {tmp_path / "extensions" / "mine"}
    paths = {path.relative_to(tmp_path).as_posix() for path in lint_house.files(tmp_path)}
    assert paths == {"extensions/core/extension.py", "main.py"}


def test_the_directions_of_imports_are_checked_for_all_but_own_extensions(tmp_path):
    root, target = tmp_path / "clone", tmp_path / "shown"
    for room in lint_house.ROOMS:
        (root / room).mkdir(parents=True)
    (root / ".gitignore").write_text("/extensions/*/\n!/extensions/core/\n")
    (root / "extensions" / "__init__.py").write_text("")
    for name in ("core", "mine"):
        (root / "extensions" / name).mkdir()
    target.mkdir()
    lint_imports.shown(target, root)
    assert {path.name for path in target.iterdir()} == set(lint_house.ROOMS)
    assert {path.name for path in (target / "extensions").iterdir()} == {"__init__.py", "core"}
