"""What `/health` and `doctor` say of each part: cause and cure where it is not well."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from core.clock import FakeClock
from core.settings import Settings, load_settings
from providers.registry import ModelRegistry
from server import checks
from storage.database import Database
from tests.support.postgres import execute, with_database

pytestmark = pytest.mark.req("OPS-05", "OPS-11")

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("free", "status"),
    [(10 << 30, "ok"), (500 << 20, "degraded"), (50 << 20, "down")],
)
async def test_the_disk_is_judged_by_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, status: str
) -> None:
    monkeypatch.setattr(
        checks.shutil, "disk_usage", lambda _: Usage(total=20 << 30, used=0, free=free)
    )
    part = await checks.disk_part(tmp_path / "not" / "yet")
    assert part.status == status
    assert bool(part.cause) == bool(part.cure) == (status != "ok")


def test_the_demo_model_is_said_to_be_one() -> None:
    part = checks.model_part(ModelRegistry(Settings(), FakeClock()))
    assert (part.status, part.needed, part.facts["demo"]) == ("degraded", True, True)
    assert "OPENAI_BASE_URL" in part.cure


def test_a_configured_model_is_well_without_being_asked() -> None:
    settings = Settings(openai_model="m", openai_base_url="http://127.0.0.1:1/v1")
    part = checks.model_part(ModelRegistry(settings, FakeClock()))
    assert (part.status, part.facts["name"]) == ("ok", "m")


@pytest.mark.req("OPS-04")
def test_conflicts_and_unknown_names_are_shown_without_secrets(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("OPENAI_API_KEY=sk-canary-one-0123456789\nGW_MAX_STEP=3\n")
    loaded = load_settings(dotenv, {"OPENAI_API_KEY": "sk-canary-two-0123456789"})
    part = checks.settings_part(loaded)
    assert part.status == "degraded"
    assert "OPENAI_API_KEY" in part.cause
    assert "GW_MAX_STEPS" in part.cause
    assert "canary" not in part.cause + part.cure


async def test_a_database_that_answers_is_well_and_one_that_is_away_is_down(
    database: Database,
) -> None:
    assert (await checks.database_part(database)).status == "ok"
    part = await checks.migrations_part("postgresql://nobody@127.0.0.1:1/none")
    assert (part.status, part.needed) == ("down", True)


async def test_a_database_that_lets_nobody_in_any_more_is_down_within_seconds(
    database: Database, postgres: str
) -> None:
    name = str(conninfo_to_dict(database.url)["dbname"])
    server = with_database(postgres, "postgres")
    execute(
        server, sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name))
    )
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    execute(server, gone, (name,))
    part = await checks.database_part(database)
    assert (part.status, part.needed) == ("down", True)
    assert part.cause
    assert part.cure


async def test_missing_migrations_are_named_with_the_command_that_applies_them(
    database_url: str,
) -> None:
    assert (await checks.migrations_part(database_url)).status == "ok"
    execute(database_url, "DROP TABLE alembic_version")
    part = await checks.migrations_part(database_url)
    assert part.status == "down"
    assert part.facts["missing"]
    assert "graphwright migrate" in part.cure


def test_a_missing_page_is_noticed(tmp_path: Path) -> None:
    assert checks.workbench_part(tmp_path).status == "degraded"
    (tmp_path / "index.html").write_text("x")
    assert checks.workbench_part(tmp_path).status == "off"
