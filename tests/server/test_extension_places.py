"""Extensions come from three places, and everything wrong with a start is told before it begins."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import extensions as door
from core.clock import SystemClock
from core.errors import ConfigError, Fault, ServiceMissing
from core.registry import Registry
from core.settings import load_settings
from runtime.extending import BUNDLED, installed, load
from server.bootstrap import checked, opened
from tests.server.broken_extensions import BROKEN
from tests.support.extension_folders import add, forgotten

SETUP = "def setup(registry):\n    registry.register_agent({name!r})\n"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder; what is imported from below it is forgotten after the test."""
    with forgotten("corp"):
        yield tmp_path


def package(site: Path, name: str, code: str, value: str | None = None) -> None:
    """Install a package `corp_<name>` as pip does: its module, and metadata beside it."""
    module = site / f"corp_{name}"
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "extension.py").write_text(code)
    info = site / f"corp_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: corp-{name}\nVersion: 1.0\n")
    entry = value or f"corp_{name}.extension"
    (info / "entry_points.txt").write_text(f"[graphwright.extensions]\n{name} = {entry}\n")
    if str(site) not in sys.path:
        sys.path.insert(0, str(site))


@pytest.mark.req("EXT-01")
def test_all_three_places_load_in_one_order_of_names(place: Path):
    one, two = place / "one", place / "two"
    add(one, "aa_path", SETUP.format(name="aa_path"))
    add(two, "zz_path", SETUP.format(name="zz_path"))
    package(place / "site", "billing", SETUP.format(name="billing"))
    settings = load_settings(None, {"GW_EXTENSIONS_PATH": f"{one}{os.pathsep}{two}"}).settings
    assembly, _ = checked(settings, SystemClock())
    assert assembly.extensions == ("aa_path", "billing", "core", "demo", "zz_path")
    assert {"aa_path", "billing", "zz_path", "assistant"} <= set(assembly.agents)
    assert assembly.disabled_extensions == ("context_demo",)


@pytest.mark.req("EXT-01", "EXT-05")
def test_a_name_that_is_there_twice_is_a_fault_that_names_both(place: Path):
    add(place / "one", "same", SETUP.format(name="a"))
    add(place / "two", "same", SETUP.format(name="b"))
    add(place / "two", "demo", SETUP.format(name="c"))
    add(place / "two", "get_service", SETUP.format(name="d"))
    package(place / "site", "core", SETUP.format(name="d"))
    registry = Registry()
    load(registry, [BUNDLED, place / "one", place / "two", place / "one"], installed())
    told = {fault.where: fault for fault in registry.faults}
    assert set(told) == {
        "two/same/extension.py",
        "two/demo/extension.py",
        "two/get_service/extension.py",
        "corp-core: corp_core/extension.py",
    }
    assert "one/same/extension.py" in told["two/same/extension.py"].what
    assert "extensions/core/extension.py" in told["corp-core: corp_core/extension.py"].what
    assert all(fault.cure for fault in registry.faults)
    assert registry.extensions == ["core", "demo", "same"]


@pytest.mark.req("EXT-01", "EXT-05")
def test_a_path_that_is_missing_or_a_link_is_a_fault(place: Path):
    (place / "real").mkdir()
    (place / "link").symlink_to(place / "real")
    (place / "file").write_text("")
    registry = Registry()
    load(registry, [place / "link", place / "missing", place / "file"])
    assert [fault.where for fault in registry.faults] == ["GW_EXTENSIONS_PATH"] * 3
    assert [fault.what.rpartition("/")[2] for fault in registry.faults] == [
        "link is a symbolic link.",
        "missing is no folder.",
        "file is no folder.",
    ]


@pytest.mark.req("EXT-01", "EXT-05")
def test_an_installed_package_with_faults_is_told_with_its_file(place: Path):
    package(place / "site", "broken", "\n\nimport nothing_of_that_name\n")
    package(place / "site", "odd", "", value="corp_odd.extension:setup")
    registry = Registry()
    load(registry, [], installed())
    [broken, odd] = registry.faults
    assert broken.where == "corp-broken: corp_broken/extension.py"
    assert "(line 3)" in broken.what
    assert "nothing_of_that_name" in broken.cure
    assert "no module" in odd.what
    assert registry.extensions == []


@pytest.mark.req("EXT-06")
def test_a_service_asked_for_at_import_or_in_setup_is_told_where_to_ask(place: Path):
    early = "from extensions import get_service\nget_service('x')\ndef setup(registry): pass\n"
    late = "from extensions import get_service\ndef setup(registry):\n    get_service('x')\n"
    add(place / "one", "at_import", early)
    add(place / "one", "in_setup", late)
    registry = Registry()
    load(registry, [place / "one"])
    assert len(registry.faults) == 2
    for fault in registry.faults:
        assert "ServiceMissing" in fault.what
        assert "Call it inside the tool that uses it" in fault.what
    with pytest.raises(ServiceMissing):
        door.get_service("x")


@pytest.mark.req("EXT-02")
def test_a_switch_and_a_check_read_settings_by_the_same_priority(place: Path):
    code = (
        "from extensions import get_setting\n"
        "def enabled():\n    return get_setting('ACME_ON', False)\n"
        "def validate_config():\n"
        "    if not get_setting('ACME_URL'):\n        raise ValueError('ACME_URL is missing')\n"
        "def setup(registry):\n    registry.register_agent('acme')\n"
    )
    add(place / "one", "acme", code)

    def loaded(dotenv: str, **process: str) -> Registry:
        (place / ".env").write_text(dotenv)
        load_settings(place / ".env", process)
        registry = Registry()
        load(registry, [place / "one"])
        return registry

    off = loaded("ACME_ON=0\n", ACME_ON="1")
    assert (off.extensions, off.disabled, off.faults) == ([], ["acme"], [])
    [fault] = loaded("ACME_ON=1\n").faults
    assert fault == Fault(
        "one/acme/extension.py",
        "finds its settings wrong: ValueError: ACME_URL is missing (line 6).",
        "Correct the setting it names.",
    )
    on = loaded("ACME_ON=0\n", ACME_ON="1", ACME_URL="x", GW_ENV_PRIORITY="process")
    assert (on.extensions, on.faults) == (["acme"], [])
    [wrong] = loaded("ACME_ON=perhaps\n").faults
    assert wrong.where == "one/acme/extension.py: ACME_ON"
    load_settings(None, {})


@pytest.mark.req("EXT-05", "EXT-10")
async def test_a_broken_set_is_told_whole_before_the_database_is_touched(place: Path):
    for name, (code, _) in BROKEN.items():
        add(place / "mine", name, code)
    (place / "mine" / "linked").symlink_to(place)
    with socket.socket() as database:
        database.bind(("127.0.0.1", 0))
        database.listen()
        database.setblocking(False)
        port = database.getsockname()[1]
        loaded = load_settings(
            None,
            {},
            data_dir=place / "data",
            database_url=f"postgresql://nobody@127.0.0.1:{port}/none",
            extensions_path=(place / "mine",),
            hitl_tools=frozenset({"nothing"}),
            model_provider="failing",
        )
        with pytest.raises(ConfigError) as caught:
            async with opened(loaded, SystemClock()):
                raise AssertionError("it started")
        with pytest.raises(BlockingIOError):
            database.accept()
    assert not (place / "data").exists()
    faults = caught.value.faults
    for name, (_, part) in BROKEN.items():
        own = [fault for fault in faults if f"mine/{name}/" in f"{fault.where}/"]
        assert len(own) == 1, (name, own)
        assert part in f"{own[0].what} {own[0].cure}", own
    others = [fault for fault in faults if not any(name in fault.where for name in BROKEN)]
    assert sorted(fault.where for fault in others) == ["HITL_TOOLS", "mine/linked"]
    assert all(fault.cure for fault in faults)
    assert "abcdef123456" not in str(caught.value)
