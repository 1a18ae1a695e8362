"""One product for the whole run, with the demo model; each test brings users of its own."""

from __future__ import annotations

import asyncio
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
from tests.support.app import Served, chat, in_background, provider_settings, served_product
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


@dataclass(frozen=True)
class Settled:
    """A user with one finished conversation, shared by tests that change nothing."""

    key: str
    ids: dict[str, str]


@pytest.fixture(scope="session")
def settled(house: Served) -> Settled:
    """A key, and ids that are really there, so that what is sent is looked at."""

    async def make() -> Settled:
        key = await house.key_of(f"settled-{new_id()[-12:]}")
        async with house.client(key) as client:
            reply = await chat(client, "calculate 17 * 23")
            await chat(client, "hello", session_id=reply.session_id)
            await chat(client, "hello")
            history = await client.get(f"/api/chat/history/{reply.session_id}")
        ids = {
            "session_id": reply.session_id,
            "run_id": reply.run_id,
            "message_id": history.json()["items"][-1]["id"],
            "tool_call_id": "x",
            "key_id": new_id(),
            "name": "assistant",
        }
        return Settled(key, ids)

    return asyncio.run(make())


@pytest.fixture
async def settler(house: Served, settled: Settled) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the settled user."""
    async with house.client(settled.key) as client:
        yield client


@pytest.fixture
async def scripted_house(
    database_url: str, tmp_path: Path, scripted: ScriptedServer
) -> AsyncIterator[Served]:
    """A product of the test's own, whose only model is the scripted provider."""
    async with served_product(
        database_url, tmp_path, **provider_settings(scripted.base_url)
    ) as served:
        yield served
