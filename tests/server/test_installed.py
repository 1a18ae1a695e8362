"""Real wheels, installed by pip: an extension that comes as a package, and the product itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.acceptance.client import Client, text_of
from tests.house.tree import ROOT, files
from tests.support.extension_folders import add
from tests.support.process import command, environment, server
from tests.support.wheels import build, install

pytestmark = pytest.mark.timeout(180)

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-greeter"
version = "1.0"

[project.entry-points."graphwright.extensions"]
greeter = "acme_greeter.extension"

[tool.setuptools]
packages = ["acme_greeter"]
"""

GREETER = '''
from extensions import Registry, define_tool
from acme_greeter.words import WORD

@define_tool(group="acme")
def {name}(who: str) -> str:
    """Greet somebody.

    Args:
        who: their name.
    """
    return f"{{WORD}}, {{who}}!"

def setup(registry: Registry) -> None:
    registry.register_agent("{agent}", prompt="Greet.", tools=[{name}])
'''


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def source_of_greeter(folder: Path) -> Path:
    """Write the source of a package that brings an extension."""
    package = folder / "acme_greeter"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("")
    (package / "words.py").write_text('WORD = "Hello"\n')
    (package / "extension.py").write_text(GREETER.format(name="greet", agent="greeter"))
    return folder


@pytest.mark.req("EXT-01")
def test_an_installed_package_and_a_named_folder_are_served_side_by_side(
    tmp_path: Path, database_url: str
) -> None:
    site, mine = tmp_path / "site", tmp_path / "mine"
    install(build(source_of_greeter(tmp_path / "source"), tmp_path / "wheels"), site)
    own = GREETER.format(name="salute", agent="saluter")
    add(mine, "saluting", own.replace("from acme_greeter.words import WORD", "WORD = 'Welcome'"))
    settings = {
        "PYTHONPATH": str(site),
        "GW_EXTENSIONS_PATH": str(mine),
        "DATABASE_URL": database_url,
        "GW_TITLES": "off",
    }
    listed = command("extension", "list", settings=settings)
    assert listed.returncode == 0, listed.stderr
    told = [" ".join(line.split()) for line in listed.stdout.splitlines()]
    assert "greeter loaded agents: greeter; tools: greet" in told
    assert "saluting loaded agents: saluter; tools: salute" in told
    with server(tmp_path / "data", **settings) as started:
        data_dir = ("--data-dir", str(started.data_dir))
        key = command("key", "create", "--name", "me", *data_dir, settings=settings).stdout.strip()
        client = Client(started.url, key)
        for agent, tool, answer in (
            ("greeter", "greet", "Hello, Ann!"),
            ("saluter", "salute", "Welcome, Ann!"),
        ):
            frames = client.chat(f'{tool} {{"who": "Ann"}}', agent=agent)
            assert frames[-1]["type"] == "done", frames[-1]
            assert answer in text_of(frames)
        client.close()


@pytest.mark.req("EXT-01", "EXT-05")
def test_an_installed_package_that_is_broken_is_told_with_its_file(tmp_path: Path) -> None:
    source = source_of_greeter(tmp_path / "source")
    (source / "acme_greeter" / "words.py").write_text("import nothing_of_that_name\n")
    site = tmp_path / "site"
    install(build(source, tmp_path / "wheels"), site)
    listed = command("extension", "list", settings={"PYTHONPATH": str(site)})
    assert listed.returncode == 3
    assert "acme-greeter: acme_greeter/extension.py: cannot be imported" in listed.stderr
    assert "Install the package that provides nothing_of_that_name" in listed.stderr
    [line] = [line for line in listed.stdout.splitlines() if line.startswith("greeter")]
    assert line.split() == ["greeter", "faulty"]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product's own wheel, built in a checkout that has an extension of a team."""
    folder = tmp_path_factory.mktemp("product")
    for path in files():
        target = folder / "checkout" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    own = add(folder / "checkout" / "extensions", "secret_desk", "def setup(registry): pass\n")
    (own / "__init__.py").write_text("")
    return build(folder / "checkout", folder / "wheels")


@pytest.mark.req("EXT-12")
def test_a_wheel_of_the_product_carries_its_own_extensions_and_no_others(product: Path) -> None:
    with zipfile.ZipFile(product) as wheel:
        names = wheel.namelist()
    carried = {name.split("/")[1] for name in names if name.startswith("extensions/")}
    assert {name for name in carried if not name.endswith(".py")} == {
        "context_demo", "core", "demo",
    }  # fmt: skip
    assert not [name for name in names if "secret_desk" in name]


@pytest.mark.req("EXT-12")
def test_an_installed_product_writes_new_extensions_where_it_is_told(
    product: Path, tmp_path: Path
) -> None:
    site, mine = tmp_path / "site", tmp_path / "mine"
    install(product, site)

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment(PYTHONPATH=str(site), PYTHONDONTWRITEBYTECODE="1", **more),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    before = names_in(site / "extensions")
    refused = run("-m", "main", "extension", "new", "windmill")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "installed as a package" in refused.stderr
    assert "--path FOLDER" in refused.stderr
    made = run("-m", "main", "extension", "new", "windmill", "--path", str(mine))
    assert made.returncode == 0, made.stderr
    assert f"GW_EXTENSIONS_PATH={mine}" in made.stderr
    assert "graphwright serve" in made.stderr
    assert ".venv" not in made.stderr
    tested = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(mine / "windmill"))
    assert "3 passed" in tested.stdout, tested.stdout + tested.stderr
    listed = run("-m", "main", "extension", "list", GW_EXTENSIONS_PATH=str(mine))
    assert "windmill" in listed.stdout, listed.stderr
    assert names_in(site / "extensions") == before
