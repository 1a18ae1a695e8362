"""The product shared by all tests of a file: table-driven tests need no start of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from core.ids import new_id
from tests.support.app import Reply, Served, chat, in_background, provider_settings, resume
from tests.support.extension_folders import add, forgotten
from tests.support.postgres import execute, with_database
from tests.support.scripted_server import ScriptedServer, Seen
from tests.support.scripted_turns import say


@contextmanager
def fresh_database(postgres: str) -> Iterator[str]:
    """Give the address of a migrated database that outlives single tests."""
    name = f"stage_{new_id().replace('-', '')}"
    server, pattern = with_database(postgres, "postgres"), conninfo_to_dict(postgres)["dbname"]
    execute(
        server,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(str(pattern))
        ),
    )
    yield with_database(postgres, name)
    execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def house_of(
    extension: ModuleType, postgres: str, provider: ScriptedServer, **more: Any
) -> Iterator[Served]:
    """Serve the product with one more extension, loaded from a folder as a user's own are.

    Args:
        extension: a module `<name>_extension` whose text becomes the extension `<name>`.
        postgres: where databases are made.
        provider: the model.
        more: further settings.
    """
    name = extension.__name__.rpartition(".")[2].removesuffix("_extension")
    folder = Path(tempfile.mkdtemp(prefix=f"gw-{name}-"))
    add(folder / "ext", name, Path(str(extension.__file__)).read_text(encoding="utf-8"))
    settings = provider_settings(provider.base_url) | {"openai_max_retries": 0, **more}
    with (
        forgotten(),
        fresh_database(postgres) as url,
        in_background(url, folder, gw_extensions_path=str(folder / "ext"), **settings) as served,
    ):
        yield served
    shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Stage:
    """One product and one provider for a whole file; every test brings words of its own."""

    served: Served
    scripted: ScriptedServer
    client: httpx.AsyncClient
    first: int
    """Requests that were seen before this test."""

    async def chat(self, message: str, **fields: Any) -> Reply:
        """Send a message and read the stream to its end."""
        return await chat(self.client, message, **fields)

    async def resume(self, reply: Reply, **answer: Any) -> Reply:
        """Answer what a stream ended with."""
        return await resume(self.client, reply, **answer)

    async def cancel(self, run_id: str) -> int:
        """Cancel a run and return the status."""
        return (await self.client.post(f"/api/runs/{run_id}/cancel")).status_code

    @property
    def requests(self) -> list[Seen]:
        """What the provider was sent during this test."""
        return self.scripted.requests[self.first :]

    async def goes_on_as(self, reply: Reply, agent: str) -> None:
        """Check that the session takes another message with that agent; answers what it asks."""
        after = await self.chat("and now?", session_id=reply.session_id, agent=agent)
        if after.last["type"] == "interrupt":
            after = await self.resume(after, answers=["yes"])
        assert after.last["type"] == "done", after.last
        assert [seen.refused for seen in self.requests if seen.refused] == []

    async def goes_on(self, session_id: str) -> None:
        """Check that the session takes another message and that every request was valid."""
        after = await self.chat("and now?", session_id=session_id)
        assert after.last["type"] == "done", after.last
        assert [seen.refused for seen in self.requests if seen.refused] == []


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedServer]:
    """A strict scripted provider for a whole file."""
    server = ScriptedServer().start()
    server.on("and now?", say("Go on."))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def house(postgres: str, provider: ScriptedServer) -> Iterator[Served]:
    """The product for a whole file; `calculate` and `write_file` need approval."""
    folder = Path(tempfile.mkdtemp(prefix="gw-stage-"))
    settings = provider_settings(provider.base_url) | {"openai_max_retries": 0}
    with (
        fresh_database(postgres) as url,
        in_background(url, folder, hitl_tools="calculate,write_file", **settings) as served,
    ):
        yield served
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def stage(house: Served, provider: ScriptedServer) -> AsyncIterator[Stage]:
    """The shared product as one test uses it."""
    async with house.client() as client:
        yield Stage(house, provider, client, len(provider.requests))
