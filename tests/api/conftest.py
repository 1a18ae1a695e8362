"""One product for the whole run, with the demo model; each test brings users of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from core.ids import new_id
from tests.support.app import Served, in_background, provider_settings, served_product
from tests.support.postgres import execute, with_database
from tests.support.scripted_server import ScriptedServer


@pytest.fixture(scope="session")
def house(postgres: str) -> Iterator[Served]:
    """The product in the background."""
    name = f"house_{new_id().replace('-', '')}"
    server, pattern = with_database(postgres, "postgres"), conninfo_to_dict(postgres)["dbname"]
    execute(
        server,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(str(pattern))
        ),
    )
    folder = Path(tempfile.mkdtemp(prefix="gw-house-"))
    with in_background(with_database(postgres, name), folder) as served:
        yield served
    execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Guest:
    """A user that only this test has, and its client."""

    name: str
    key: str
    client: httpx.AsyncClient


@pytest.fixture
async def guest(house: Served) -> AsyncIterator[Guest]:
    """A fresh user of the house."""
    name = f"guest-{new_id()[-12:]}"
    key = await house.key_of(name)
    async with house.client(key) as client:
        yield Guest(name, key, client)


@pytest.fixture
async def scripted_house(
    database_url: str, tmp_path: Path, scripted: ScriptedServer
) -> AsyncIterator[Served]:
    """A product of the test's own, whose only model is the scripted provider."""
    async with served_product(
        database_url, tmp_path, **provider_settings(scripted.base_url)
    ) as served:
        yield served
