"""Loading of extension folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.registry import Registry
from runtime.extending import BUNDLED, load
from tests.support.extension_folders import add, forgotten

pytestmark = pytest.mark.req("OPS-01")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder for extensions that are forgotten after the test."""
    place = tmp_path / "extensions"
    place.mkdir()
    with forgotten():
        yield place


def loaded(folder: Path) -> Registry:
    registry = Registry()
    load(registry, [folder])
    return registry


AGENT = "def setup(registry):\n    registry.register_agent({name!r})\n"


def test_extensions_are_set_up_in_name_order(folder: Path) -> None:
    for name in ("zz_last", "aa_first", "mm_middle"):
        add(folder, name, AGENT.format(name=name))
    registry = loaded(folder)
    assert registry.faults == []
    assert registry.extensions == ["aa_first", "mm_middle", "zz_last"]
    assert [agent.name for agent in registry.agents] == registry.extensions
    assert registry.agents[0].where == "extensions/aa_first/extension.py"


def test_an_extension_may_import_the_files_beside_it(folder: Path) -> None:
    place = add(
        folder,
        "with_parts",
        "from .parts import NAME\ndef setup(registry):\n    registry.register_agent(NAME)\n",
    )
    (place / "parts.py").write_text("NAME = 'from_parts'\n")
    registry = loaded(folder)
    assert registry.faults == []
    assert [agent.name for agent in registry.agents] == ["from_parts"]


def test_a_switched_off_extension_runs_nothing_and_is_listed(folder: Path) -> None:
    add(
        folder,
        "asleep",
        "def enabled():\n    return False\n"
        "def validate_config():\n    raise ValueError('must not run')\n"
        "def setup(registry):\n    raise RuntimeError('must not run')\n",
    )
    registry = loaded(folder)
    assert (registry.faults, registry.extensions, registry.disabled) == ([], [], ["asleep"])


FAULTY = {
    "broken_import": ("import no_such_package_anywhere\n", "no_such_package_anywhere"),
    "broken_syntax": ("def setup(registry:\n", "SyntaxError"),
    "broken_exit": ("raise SystemExit(3)\n", "SystemExit"),
    "no_setup": ("x = 1\n", "no function setup"),
    "raises": ("def setup(registry):\n\n    raise KeyError('gone')\n", "line 3"),
    "wrong_form": ("def setup():\n    pass\n", "setup"),
    "is_async": ("async def setup(registry):\n    pass\n", "asynchronous"),
    "bad_enabled": ("def enabled():\n    return 'no'\ndef setup(registry): pass\n", "yes or no"),
    "bad_config": (
        "def validate_config():\n    raise ValueError('GW_X is not a number')\n"
        "def setup(registry): pass\n",
        "GW_X is not a number",
    ),
}


def test_every_fault_of_a_start_is_reported_together(folder: Path) -> None:
    for name, (code, _) in FAULTY.items():
        add(folder, name, code)
    add(folder, "sound", AGENT.format(name="sound"))
    registry = loaded(folder)
    told = {Path(fault.where).parts[1]: fault for fault in registry.faults}
    assert set(told) == set(FAULTY)
    for name, (_, expected) in FAULTY.items():
        assert expected in told[name].what, name
        assert told[name].cure, name
        assert str(folder) not in told[name].where
    assert [agent.name for agent in registry.agents] == ["sound"]


def test_links_wrong_names_and_empty_folders_are_faults_and_never_imported(
    folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    evil = "raise RuntimeError('imported')\n"
    real = add(outside, "real", evil)
    (folder / "linked").symlink_to(real)
    (folder / "linked_entry").mkdir()
    (folder / "linked_entry" / "extension.py").symlink_to(real / "extension.py")
    (folder / "empty").mkdir()
    add(folder, "Wrong-Name", evil)
    add(folder, "_hidden", evil)
    (folder / "__pycache__").mkdir()
    registry = loaded(folder)
    assert sorted(Path(fault.where).parts[1] for fault in registry.faults) == [
        "Wrong-Name",
        "empty",
        "linked",
        "linked_entry",
    ]
    assert not any("imported" in fault.what for fault in registry.faults)


def test_the_bundled_extensions_have_no_faults() -> None:
    registry = Registry()
    load(registry, [BUNDLED])
    assert registry.faults == []
