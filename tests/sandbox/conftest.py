"""A file store in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.principal import Principal
from core.types import UserId, WorkspaceId
from sandbox.files import FileLimits, LocalFileStore, LocalFileStores

ALICE = Principal(WorkspaceId("w1"), UserId("alice"), "alice", "script")
BOB = Principal(WorkspaceId("w1"), UserId("bob"), "bob", "script")


@pytest.fixture
def stores(tmp_path: Path) -> LocalFileStores:
    return LocalFileStores(tmp_path / "data", FileLimits(file=1000, project=5000))


@pytest.fixture
def store(stores: LocalFileStores) -> LocalFileStore:
    return stores.open(ALICE, "p1", "s1")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The real folder behind `/workspace/` of Alice's project, made as a sandbox would."""
    real = tmp_path / "data" / "workspaces" / "w1" / "alice" / "p1" / "workspace"
    real.mkdir(parents=True)
    return real
