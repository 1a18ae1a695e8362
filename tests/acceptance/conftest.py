"""Data folders of their own, and a provider for the servers that live on them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.client import Client, new_key
from tests.support.postmaster import stop_left_behind
from tests.support.process import ServerProcess, server
from tests.support.scripted_server import ScriptedServer

Connect = Callable[..., Client]

KEY = "sk-test-acceptance-0123456789"


def provider(scripted: ScriptedServer) -> dict[str, str]:
    """Return the environment that makes the scripted provider the model."""
    return {
        "OPENAI_BASE_URL": scripted.base_url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": "scripted",
        "OPENAI_MAX_RETRIES": "1",
        "HITL_TOOLS": "write_file",
        "GW_TITLES": "off",
        # Short, so that a killed server's runs need not be waited for.
        "GW_HEARTBEAT_SECONDS": "0.5",
        "GW_OWNER_DEAD_SECONDS": "2",
        "GW_HANDOVER_SECONDS": "0.5",
    }


def new_data_dir() -> Path:
    """Return a folder that the database's own user can reach when we are root."""
    folder = Path(tempfile.mkdtemp(prefix="gw-accept-"))
    folder.chmod(0o711)
    return folder / "data"


def remove(data_dir: Path) -> None:
    """Stop what a killed server left running and delete the folder."""
    stop_left_behind(data_dir)
    shutil.rmtree(data_dir.parent, ignore_errors=True)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data folder that does not exist yet."""
    folder = new_data_dir()
    yield folder
    remove(folder)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Opens clients, with a new key where none is given; they are closed after the test."""
    clients: list[Client] = []

    def open_client(started: ServerProcess, key: str | None = None) -> Client:
        clients.append(Client(started.url, key or new_key(started)))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def running() -> Iterator[ServerProcess]:
    """One server for tests that only look, with the demo model."""
    folder = new_data_dir()
    try:
        with server(folder, GW_TITLES="off") as started:
            yield started
    finally:
        remove(folder)
