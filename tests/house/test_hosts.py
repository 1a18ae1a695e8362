"""Files that are shared name no package registry and no folder of somebody's machine."""

import re

import pytest

from tests.house.tree import ROOT, files

REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|--trusted-host"
    r"|(?:pypi|pythonhosted|npmjs|npmmirror|tuna\.tsinghua|mirrors?\.[a-z]+|artifactory|nexus)"
    r"\.[a-z]+(?:/|\b)",
    re.IGNORECASE,
)
MACHINE = re.compile(r"(?<![\w/.])/(?:root|home/[a-z]|Users/[A-Za-z]|work)/[\w.-]+")


@pytest.mark.req("OPS-01")
def test_no_lock_or_document_carries_a_registry_address():
    shared = [*files(".lock", ".md", ".txt", ".toml", "Makefile"), ROOT / ".ci" / "run"]
    assert len(shared) > 5
    found = {
        path.name: match.group()
        for path in shared
        for match in [REGISTRY.search(path.read_text(encoding="utf-8"))]
        if match
    }
    assert found == {}


def test_no_file_names_a_folder_of_a_developer_machine():
    found = {
        path.relative_to(ROOT).as_posix(): match.group()
        for path in files(".py", ".md", ".toml", ".sh", ".html", "Makefile", ".example")
        for match in [MACHINE.search(path.read_text(encoding="utf-8"))]
        if match
    }
    assert found == {}


@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_one_version_and_hashes(name):
    entries = re.split(r"\n(?=[a-z0-9])", (ROOT / name).read_text(encoding="utf-8"))[1:]
    assert len(entries) > 50
    for entry in entries:
        assert re.match(r"[a-z0-9._-]+(?:\[[a-z,-]+\])?==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry
