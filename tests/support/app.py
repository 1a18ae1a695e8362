"""The whole product in this process: real PostgreSQL, real HTTP on loopback, scripted provider."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from core.clock import SystemClock
from core.principal import Principal
from core.settings import load_settings
from server.bootstrap import Product, opened
from server.web import serving


@dataclass
class Frame:
    """One event as it came over the wire."""

    id: str
    data: dict[str, Any]

    @property
    def type(self) -> str:
        """The event's type."""
        return self.data["type"]


@dataclass
class Reply:
    """A whole stream, read to its end."""

    status: int
    headers: httpx.Headers
    frames: list[Frame] = field(default_factory=list)

    @property
    def session_id(self) -> str:
        """The session that the headers name."""
        return self.headers["x-session-id"]

    @property
    def run_id(self) -> str:
        """The run that the headers name."""
        return self.headers["x-run-id"]

    @property
    def last(self) -> dict[str, Any]:
        """The event that ended the stream."""
        return self.frames[-1].data

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one type."""
        return [frame.data for frame in self.frames if frame.type == kind]

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(event["content"] for event in self.of("token"))


@dataclass
class Served:
    """A running product and a client of its owner."""

    product: Product
    url: str
    key: str
    client: httpx.AsyncClient

    async def principal(self, name: str) -> Principal:
        """Return a user of the workspace, made where missing."""
        owner = await self.product.identity.local_principal()
        async with self.product.database.work() as work:
            user = await work.identity.ensure_user(owner.workspace_id, name, "member")
        return Principal(owner.workspace_id, user.id, user.name, "script")

    async def key_of(self, name: str, **options: Any) -> str:
        """Return a new API key of the user of that name."""
        who = await self.principal(name)
        return (await self.product.identity.create_key(who, "test", **options))[1]

    @asynccontextmanager
    async def client_of(self, name: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
        """Give a client that acts as the user of that name."""
        async with client_for(self.url, await self.key_of(name, **options)) as client:
            yield client

    async def chat(
        self, message: str = "hello", client: httpx.AsyncClient | None = None, **fields: Any
    ) -> Reply:
        """Send a message and read the stream to its end."""
        form = {"message": message, **fields}
        return await read(client or self.client, "POST", "/api/chat", data=form)

    async def resume(
        self, reply: Reply, client: httpx.AsyncClient | None = None, **answer: Any
    ) -> Reply:
        """Answer what a stream ended with."""
        body = {
            "session_id": reply.session_id,
            "interrupt_token": reply.last["interrupt_token"],
            **answer,
        }
        return await read(client or self.client, "POST", "/api/chat/resume", json=body)


async def read(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Reply:
    """Read a stream of events to its end; any other answer has no frames."""
    async with client.stream(method, path, **options) as response:
        reply = Reply(response.status_code, response.headers)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            reply.frames = [frame async for frame in frames_of(response)]
        else:
            await response.aread()
    return reply


async def frames_of(response: httpx.Response) -> AsyncIterator[Frame]:
    """Give the frames of a stream as they come; comments are skipped."""
    identifier, data = "", ""
    async for line in response.aiter_lines():
        if line.startswith("id: "):
            identifier = line[4:]
        elif line.startswith("data: "):
            data = line[6:]
        elif not line and data:
            yield Frame(identifier, json.loads(data))
            identifier, data = "", ""


def client_for(url: str, key: str | None = None, **options: Any) -> httpx.AsyncClient:
    """Return a client with that key; without one it is anonymous."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=20, trust_env=False, **options)


@asynccontextmanager
async def served_product(
    database_url: str, data_dir: Path, **settings: Any
) -> AsyncIterator[Served]:
    """Give the product on that database, listening on a free port of 127.0.0.1.

    Args:
        database_url: a migrated or empty database.
        data_dir: where files go.
        settings: further settings by field name.
    """
    loaded = load_settings(
        None,
        {},
        **{"data_dir": data_dir, "database_url": database_url, "db_pool_size": 8, "titles": "off"}
        | settings,
    )
    clock = SystemClock()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with opened(loaded, clock) as product, serving(product.app, taken, clock):
            owner = await product.identity.local_principal()
            _, key = await product.identity.create_key(owner, "owner of the test")
            async with client_for(url, key) as client:
                yield Served(product, url, key, client)


def provider_settings(url: str) -> dict[str, Any]:
    """Return the settings that make a scripted provider the only model."""
    return {
        "openai_base_url": url,
        "openai_api_key": "sk-test-scripted-0123456789",
        "openai_model": "scripted",
        "openai_max_retries": 1,
    }
