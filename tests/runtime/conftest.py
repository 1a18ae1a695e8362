"""A runtime in this process: real PostgreSQL, real HTTP to a scripted provider."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.events import StoredEvent
from core.principal import Principal
from core.registry import Assembly, Registry
from core.settings import Settings
from core.tooling import ToolContext, define_tool
from core.types import RunStatus, UserId, WorkspaceId
from providers.registry import ModelRegistry
from runtime.commands import ChatCommand, ResumeCommand, Submitted
from runtime.environment import Runtime
from runtime.registry import assemble
from sandbox.files import FileLimits, LocalFileStores
from storage.database import Database
from tests.support.events import all_of
from tests.support.postgres import some_keys
from tests.support.scripted_server import ScriptedServer

CLOCK = SystemClock()

STAMPS = "/workspace/stamps.txt"
"""Where tools leave a mark that outlives their process."""


@dataclass
class Tools:
    """Tools of the test, and what they did."""

    done: list[str] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once `hold` runs."""
    stuck: threading.Event = field(default_factory=threading.Event)
    """Set once `hang` blocks its thread."""
    freed: threading.Event = field(default_factory=threading.Event)
    """Lets `hang` end."""

    def registry(self) -> Registry:
        registry = Registry(where="test")
        tools = (*self._plain(), *self._pausing(), *self._stamping())
        for tool in tools:
            registry.register_tool(tool)
        registry.register_agent("assistant", "Helps.", "Be brief.", tools=tools)
        return registry

    def _plain(self) -> tuple[Callable[..., Any], ...]:
        @define_tool(label="Look up")
        def lookup(key: str) -> str:
            """Look something up.

            Args:
                key: what.
            """
            self.done.append(f"lookup {key}")
            return f"value of {key}"

        @define_tool(label="Delete", requires_approval=True, side_effect="write")
        def delete(path: str) -> str:
            """Delete something.

            Args:
                path: what.
            """
            self.done.append(f"delete {path}")
            return f"deleted {path}"

        @define_tool(label="Post", requires_approval=True, side_effect="external")
        def post(text: str, times: int = 1) -> str:
            """Post a note.

            Args:
                text: the note.
                times: how often.
            """
            self.done.append(f"post {text} {times}")
            return "posted"

        @define_tool(label="Mail", side_effect="external")
        def send_mail(to: str) -> str:
            """Send a mail.

            Args:
                to: to whom.
            """
            self.done.append(f"mail {to}")
            return f"sent {len(self.done)}"

        @define_tool(label="Break")
        def boom() -> str:
            """Break."""
            raise RuntimeError("secret detail of the inside")

        return lookup, delete, post, send_mail, boom

    def _pausing(self) -> tuple[Callable[..., Any], ...]:
        @define_tool(label="Hold", side_effect="external")
        async def hold(ctx: ToolContext) -> str:
            """Hold until cancelled."""
            self.held.set()
            await asyncio.Event().wait()
            return "never"

        @define_tool(label="Hang", side_effect="external")
        def hang() -> str:
            """Block a thread."""
            self.stuck.set()
            self.freed.wait(30)
            return "too late"

        @define_tool(label="Ask", kind="question")
        def ask_user(questions: list[dict[str, Any]]) -> str:
            """Ask the user.

            Args:
                questions: what.
            """
            return ""

        @define_tool(label="Plan", kind="plan")
        def request_plan_approval(plan: str) -> str:
            """Ask for approval of a plan.

            Args:
                plan: the plan.
            """
            return ""

        return hold, hang, ask_user, request_plan_approval

    def _stamping(self) -> tuple[Callable[..., Any], ...]:
        @define_tool(label="Stamp", side_effect="external")
        async def stamp(ctx: ToolContext, text: str) -> str:
            """Put a stamp into a file.

            Args:
                text: the stamp.
            """
            await ctx.files.append(STAMPS, f"{text}\n".encode())
            return f"stamped {text}"

        @define_tool(label="Set", side_effect="write", idempotent=True)
        async def set_stamp(ctx: ToolContext, text: str) -> str:
            """Put a stamp into a file; the same again does no harm.

            Args:
                text: the stamp.
            """
            await ctx.files.append(STAMPS, f"{text}\n".encode())
            return f"set {text}"

        return stamp, set_stamp


@dataclass
class Bench:
    """One database, and as many runtimes on it as the test opens."""

    url: str
    folder: Path
    provider: str
    """Address of the scripted provider."""
    stack: AsyncExitStack
    server: ScriptedServer | None = None
    tools: Tools = field(default_factory=Tools)
    setup: Callable[[Registry], None] = lambda _: None
    """Registers more, as an extension does."""

    @property
    def scripted(self) -> ScriptedServer:
        """The provider; a process beside the test's own only knows its address."""
        assert self.server is not None
        return self.server

    def settings(self, **changed: Any) -> Settings:
        values: dict[str, Any] = {
            "data_dir": self.folder,
            "openai_base_url": self.provider,
            "openai_api_key": "sk-test",
            "openai_model": "scripted",
            "openai_max_retries": 1,
            "worker_concurrency": 8,
            "titles": "off",
            "drain_seconds": 0.2,
            "handover_seconds": 0.2,
        }
        return Settings(**values | changed)

    def assembly(self) -> Assembly:
        registry = self.tools.registry()
        self.setup(registry)
        return assemble(registry)

    async def database(self) -> Database:
        database = await Database.open(self.url, pool_size=10, keys=some_keys())
        self.stack.push_async_callback(database.close)
        return database

    async def open(self, *, works: bool = True, **changed: Any) -> Ground:
        """Start a runtime."""
        settings = self.settings(**changed)
        database = await self.database()
        models = ModelRegistry(settings, CLOCK)
        self.stack.push_async_callback(models.aclose)
        await models.warm()
        limits = FileLimits(file=1_000_000, project=10_000_000)
        environment = Runtime(
            settings,
            database,
            models,
            self.assembly(),
            LocalFileStores(self.folder, limits),
            CLOCK,
            kind="serve" if works else "api",
        )
        await self.stack.enter_async_context(environment)
        return Ground(self, environment, database, await principal(database, "ann"))


@dataclass
class Ground:
    """One runtime and the person who uses it."""

    bench: Bench
    environment: Runtime
    database: Database
    ann: Principal

    @property
    def runs(self) -> Any:
        return self.environment.runs

    @property
    def scripted(self) -> ScriptedServer:
        return self.bench.scripted

    @property
    def done(self) -> list[str]:
        """What the tools did."""
        return self.bench.tools.done

    async def submit(self, message: str, session: str | None = None, **more: Any) -> Submitted:
        return await self.runs.submit(self.ann, ChatCommand(message, session_id=session, **more))

    async def read(self, submitted: Submitted) -> list[StoredEvent]:
        """Follow a run to its rest."""
        async with asyncio.timeout(20):
            return await all_of(self.runs.follow(self.ann, submitted.run_id, submitted.after))

    async def chat(
        self, message: str, session: str | None = None, **more: Any
    ) -> tuple[Submitted, list[StoredEvent]]:
        submitted = await self.submit(message, session, **more)
        return submitted, await self.read(submitted)

    async def answer(self, submitted: Submitted, token: str, **answer: Any) -> Submitted:
        return await self.runs.resume(self.ann, ResumeCommand(submitted.session_id, token, answer))

    async def history(self, session_id: str) -> list[dict[str, Any]]:
        items, _ = await self.environment.sessions.history(self.ann, session_id)
        return items

    async def status(self, run_id: str) -> RunStatus:
        return (await self.runs.get(self.ann, run_id)).status

    async def user(self, name: str) -> Principal:
        return await principal(self.database, name)


async def principal(database: Database, name: str) -> Principal:
    async with database.work() as work:
        workspace_id = await work.identity.ensure_default_workspace()
        user = await work.identity.ensure_user(workspace_id, name, "member")
    return Principal(WorkspaceId(workspace_id), UserId(user.id), name, "script")


@pytest.fixture
async def bench(
    database_url: str, scripted: ScriptedServer, tmp_path: Path
) -> AsyncIterator[Bench]:
    """A database and a provider, and runtimes as the test opens them."""
    async with AsyncExitStack() as stack:
        made = Bench(database_url, tmp_path, scripted.base_url, stack, scripted)
        yield made
        made.tools.freed.set()


@pytest.fixture
async def ground(bench: Bench) -> Ground:
    """One running runtime."""
    return await bench.open()
