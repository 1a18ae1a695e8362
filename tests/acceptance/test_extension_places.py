"""An extension from an installed package, and one from a folder, answer in a running server."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.acceptance.client import text_of
from tests.acceptance.conftest import Connect
from tests.house.tree import ROOT, files
from tests.support.extension_folders import add
from tests.support.process import command, environment, server

pytestmark = [pytest.mark.timeout(240), pytest.mark.req("EXT-01")]

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-lifts"
version = "1.0"

[project.entry-points."graphwright.extensions"]
lifts = "acme_lifts.extension"

[tool.setuptools]
packages = ["acme_lifts"]
"""

CODE = '''
from extensions import Registry, define_tool
from {where} import FLOOR


@define_tool(group="{name}", idempotent=True)
def {name}_floor(building: str) -> str:
    """Say where something stands.

    Args:
        building: where to look.
    """
    return f"{name} of {{building}}: floor {{FLOOR}}"


def setup(registry: Registry) -> None:
    registry.register_agent("{name}", tools=[{name}_floor])
'''


def pip(*arguments: str) -> None:
    """Run pip without any network."""
    ran = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--no-index", "--no-deps", "--quiet"],
        env=environment(PIP_DISABLE_PIP_VERSION_CHECK="1"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def wheel_of(project: Path, place: Path) -> Path:
    """Build a wheel as its author does."""
    pip("wheel", str(project), "--no-build-isolation", "--wheel-dir", str(place))
    [wheel] = place.glob("*.whl")
    return wheel


def installed_lifts(place: Path) -> Path:
    """Build the package of a team, install it into a folder of its own, and return that."""
    package = place / "source" / "acme_lifts"
    package.mkdir(parents=True)
    (place / "source" / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("")
    (package / "floors.py").write_text("FLOOR = 3\n")
    (package / "extension.py").write_text(CODE.format(where="acme_lifts.floors", name="lifts"))
    site = place / "site"
    pip("install", str(wheel_of(place / "source", place)), "--target", str(site))
    return site


def test_both_are_loaded_and_answer(tmp_path: Path, data_dir: Path, connect: Connect) -> None:
    stairs = add(tmp_path / "mine", "stairs", CODE.format(where=".floors", name="stairs"))
    (stairs / "floors.py").write_text("FLOOR = 4\n")
    settings = {
        "PYTHONPATH": f"{ROOT}:{installed_lifts(tmp_path)}",
        "GW_EXTENSIONS_PATH": str(tmp_path / "mine"),
    }
    listed = command("extension", "list", settings=settings)
    states = {line.split()[0]: line.split()[1:] for line in listed.stdout.splitlines()}
    for name in ("lifts", "stairs"):
        assert states[name] == ["loaded", "agents:", f"{name};", "tools:", f"{name}_floor"]
    with server(data_dir, GW_TITLES="off", **settings) as started:
        client = connect(started)
        for name, floor in (("lifts", 3), ("stairs", 4)):
            frames = client.chat(f'{name}_floor {{"building": "hall"}}', agent=name)
            assert f"{name} of hall: floor {floor}" in text_of(frames)


def test_a_wheel_of_the_product_has_what_comes_with_it_and_no_extension_of_a_team(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "copy"
    for path in files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    own = add(copy / "extensions", "airdesk", "def setup(registry): pass\n")
    (own / "__init__.py").write_text("")
    (own / "parts").mkdir()
    (own / "parts" / "__init__.py").write_text("")
    with zipfile.ZipFile(wheel_of(copy, tmp_path)) as wheel:
        names = wheel.namelist()
    for name in ("core", "demo", "context_demo"):
        assert f"extensions/{name}/extension.py" in names
    for file in ("extensions/testing.py", "server/templates/extension/extension.py.tmpl"):
        assert file in names
    assert not [name for name in names if "airdesk" in name]
