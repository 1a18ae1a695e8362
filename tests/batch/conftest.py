"""Scripts in this process: real PostgreSQL, real HTTP to a scripted provider, the real extensions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.records import RunRecord
from core.settings import Settings
from runtime import RuntimeEnvironment
from storage.database import Database
from tests.support.extension_folders import forgotten
from tests.support.postgres import execute as query
from tests.support.scripted_server import ScriptedServer


@dataclass
class Desk:
    """What a test writes its scripts on."""

    url: str
    folder: Path
    scripted: ScriptedServer
    database: Database
    more: dict[str, Any] = field(default_factory=dict)

    def settings(self, **changed: Any) -> Settings:
        """Return the configuration of a script on this database."""
        values: dict[str, Any] = {
            "data_dir": self.folder,
            "database_url": self.url,
            "db_pool_size": 10,
            "openai_base_url": self.scripted.base_url,
            "openai_api_key": "sk-test",
            "openai_model": "scripted",
            "openai_max_retries": 0,
            "hitl_tools": frozenset({"write_file"}),
            "titles": "off",
            "drain_seconds": 0.2,
            "handover_seconds": 0.2,
            "heartbeat_seconds": 0.3,
            "owner_dead_seconds": 2.0,
        }
        return Settings(**values | self.more | changed)

    def environment(self, **options: Any) -> RuntimeEnvironment:
        """Return an environment that is not entered yet."""
        changed = options.pop("changed", {})
        return RuntimeEnvironment(settings=self.settings(**changed), **options)

    def variables(self, **more: str) -> dict[str, str]:
        """Return the same configuration as a process of its own gets it."""
        return {
            "DATABASE_URL": self.url,
            "GW_DATA_DIR": str(self.folder),
            "OPENAI_BASE_URL": self.scripted.base_url,
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_MODEL": "scripted",
            "OPENAI_MAX_RETRIES": "0",
            "HITL_TOOLS": "write_file",
            "GW_TITLES": "off",
            "GW_HEARTBEAT_SECONDS": "0.3",
            "GW_OWNER_DEAD_SECONDS": "2",
            **more,
        }

    async def run(self, run_id: str) -> RunRecord:
        """Return a run as it is stored."""
        async with self.database.work() as work:
            return await work.runs.by_id(run_id)

    def count(self, what: str) -> int:
        """Return how many rows `FROM …` gives."""
        return query(self.url, f"SELECT count(*) {what}")[0][0]

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float = 15.0) -> None:
        """Wait until something holds, for at most that long."""
        async with asyncio.timeout(seconds):
            while not await holds():
                await SystemClock().sleep(0.05)

    def asked(self, text: str) -> int:
        """Return how often the provider was asked with that as the last message."""
        return sum(seen.last_user == text for seen in self.scripted.requests)


@pytest.fixture
async def desk(
    database_url: str, database: Database, scripted: ScriptedServer, tmp_path: Path
) -> Desk:
    """A database, a provider and a folder."""
    return Desk(database_url, tmp_path, scripted, database)


@pytest.fixture(autouse=True)
def _extensions_are_forgotten() -> Iterator[None]:
    with forgotten():
        yield
