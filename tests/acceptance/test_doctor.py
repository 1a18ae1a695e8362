"""`graphwright doctor` on the real thing: says what is well, and the cure of what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.conftest import KEY, provider
from tests.support.process import command
from tests.support.scripted_server import ScriptedServer

pytestmark = [pytest.mark.timeout(180), pytest.mark.req("OPS-03", "OPS-11")]


def test_a_sound_installation_passes_before_it_was_ever_started(
    data_dir: Path, scripted: ScriptedServer
) -> None:
    scripted.key = KEY
    told = command("doctor", "--data-dir", str(data_dir), settings=provider(scripted))
    assert told.returncode == 0, told.stdout + told.stderr
    names = {line.split()[1] for line in told.stdout.splitlines() if line[:1].strip()}
    expected = {"database", "migrations", "extensions", "model", "provider", "disk", "clock"}
    assert expected | {"port", "proxies", "sandbox", "settings"} <= names
    assert "FAIL" not in told.stdout
    assert KEY not in told.stdout + told.stderr


def test_a_refused_key_fails_with_its_cure(data_dir: Path, scripted: ScriptedServer) -> None:
    scripted.key = "another"
    told = command("doctor", "--data-dir", str(data_dir), settings=provider(scripted))
    assert told.returncode == 1
    assert "OPENAI_API_KEY" in told.stdout


def test_an_unreachable_database_fails_with_its_cure_and_without_its_password(
    data_dir: Path,
) -> None:
    url = "postgresql://someone:canary-password@127.0.0.1:1/none"
    told = command("doctor", "--data-dir", str(data_dir), settings={"DATABASE_URL": url})
    assert told.returncode == 1
    assert "DATABASE_URL" in told.stdout
    assert "canary-password" not in told.stdout + told.stderr


def test_faulty_settings_are_a_finding_like_any_other(data_dir: Path) -> None:
    settings = {"GW_MAX_STEPS": "many", "LOG_FORMAT": "xml"}
    told = command("doctor", "--data-dir", str(data_dir), settings=settings)
    assert told.returncode == 1
    assert "GW_MAX_STEPS" in told.stdout
    assert "LOG_FORMAT" in told.stdout
