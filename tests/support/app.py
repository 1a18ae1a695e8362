"""The whole product in this process: real PostgreSQL, real HTTP on loopback, scripted provider."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

from api import sse
from core.clock import SystemClock
from core.principal import Principal
from core.settings import load_settings
from core.types import UserId
from server.bootstrap import Product, opened
from server.web import serving

T = TypeVar("T")


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
    body: bytes = b""
    """What was answered where it is no stream."""
    frames: list[Frame] = field(default_factory=list)

    @property
    def error(self) -> dict[str, Any]:
        """The error that was answered."""
        return json.loads(self.body)["error"]

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
    loop: asyncio.AbstractEventLoop

    async def inside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something of the product on the loop that the product lives on."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def client(self, key: str | None = None, **options: Any) -> httpx.AsyncClient:
        """Return a client with that key, the owner's where missing."""
        return client_for(self.url, self.key if key is None else key, **options)

    def anonymous(self, **options: Any) -> httpx.AsyncClient:
        """Return a client without any credential."""
        return client_for(self.url, None, **options)

    async def principal(self, name: str) -> Principal:
        """Return a user of the workspace, made where missing."""
        return await self.inside(self._principal(name))

    async def key_of(self, name: str, **options: Any) -> str:
        """Return a new API key of the user of that name."""
        who = await self.principal(name)
        work = self.product.identity.create_key(who, "test", **options)
        return (await self.inside(work))[1]

    async def cookie(self) -> str:
        """Return the cookie of a new browser session of the owner."""
        link = await self.inside(self.product.identity.new_login_link())
        return await self.inside(self.product.identity.enter(link))

    async def _principal(self, name: str) -> Principal:
        owner = await self.product.identity.local_principal()
        async with self.product.database.work() as work:
            user = await work.identity.ensure_user(owner.workspace_id, name, "member")
        return Principal(owner.workspace_id, UserId(user.id), user.name, "script")


async def chat(client: httpx.AsyncClient, message: str = "hello", **fields: Any) -> Reply:
    """Send a message and read the stream to its end."""
    return await read(client, "POST", "/api/chat", data={"message": message, **fields})


async def resume(client: httpx.AsyncClient, reply: Reply, **answer: Any) -> Reply:
    """Answer what a stream ended with."""
    where = {"session_id": reply.session_id, "interrupt_token": reply.last["interrupt_token"]}
    return await read(client, "POST", "/api/chat/resume", json=where | answer)


async def read(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> Reply:
    """Read a stream of events to its end; any other answer has no frames."""
    async with client.stream(method, path, **options) as response:
        reply = Reply(response.status_code, response.headers)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            reply.frames = [frame async for frame in frames_of(response)]
        else:
            reply.body = await response.aread()
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
    database_url: str, data_dir: Path, *, env_file: Path | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """Give the product on that database, listening on a free port of 127.0.0.1.

    Args:
        database_url: a migrated or empty database.
        data_dir: where files go.
        env_file: a `.env` that is read.
        settings: further settings by field name.
    """
    loaded = load_settings(
        env_file,
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
            yield Served(product, url, key, asyncio.get_running_loop())
        # Another product of this process must not take this end for its own.
        sse.begin()


@contextmanager
def in_background(database_url: str, data_dir: Path, **settings: Any) -> Iterator[Served]:
    """Give the product on a thread and loop of its own, to be shared by many tests."""
    ready: Future[Served] = Future()
    ends: list[Callable[[], object]] = []

    async def work() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(end.set))
        try:
            async with served_product(database_url, data_dir, **settings) as served:
                ready.set_result(served)
                await end.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=asyncio.run, args=(work(),), name="product")
    thread.start()
    try:
        yield ready.result(60)
    finally:
        ends[0]()
        thread.join(60)
        assert not thread.is_alive(), f"the product does not end: {_under_way(ready.result().loop)}"


def _under_way(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return what each task of a loop waits for."""
    return [
        f"{task.get_name()} at {[f'{one.f_code.co_qualname}:{one.f_lineno}' for one in task.get_stack()]}"
        for task in asyncio.all_tasks(loop)
    ]


async def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something holds, for at most that long."""
    async with asyncio.timeout(seconds):
        while not holds():
            await SystemClock().sleep(0.02)


def provider_settings(url: str) -> dict[str, Any]:
    """Return the settings that make a scripted provider the only model."""
    return {
        "openai_base_url": url,
        "openai_api_key": "sk-test-scripted-0123456789",
        "openai_model": "scripted",
        "openai_max_retries": 1,
    }
