"""Servers and workers die, sleep and end under load; nothing is lost and nothing is doubled."""

from __future__ import annotations

import secrets
import time
from functools import partial
from pathlib import Path

import httpx
import psycopg
import pytest

from storage.embedded import embedded_url
from tests.acceptance.conftest import provider
from tests.chaos.checker import Stored, findings
from tests.chaos.clients import Talker
from tests.chaos.fleet import Chaos, Fleet
from tests.support.extension_folders import add
from tests.support.process import command
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import call, say
from tests.support.waiting import pause, wait_until

MARKER = '''
import os
from extensions import define_tool, get_setting

@define_tool(label="Mark", side_effect="external")
def mark(text: str) -> str:
    """Leave a mark.

    Args:
        text: the mark.
    """
    file = os.open(get_setting("MARKS"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{text}\\n".encode())
    finally:
        os.close(file)
    return f"marked {text}"

def setup(registry):
    registry.register_agent("marker", "Marks.", "Mark.", tools=[mark])
'''


def play(scripted: ScriptedServer) -> None:
    """Let every message leave its mark and be echoed, word by word."""
    scripted.on(
        "talker",
        lambda seen: call("mark", {"text": seen.last_user}),
        lambda seen: say(f"echo {seen.last_user}", size=3, pause=0.03),
    )


def wait_ready(urls: list[str]) -> None:
    for url in urls:
        wait_until(partial(is_ready, url), f"{url} is ready", 60)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def at_rest(url: str) -> Stored:
    """Read it once tickets of dead processes are cleared away, which is said to take a while."""
    until = time.monotonic() + 60
    while (stored := stored_at(url)).running_jobs and time.monotonic() < until:
        pause(0.5)
    return stored


def stored_at(url: str) -> Stored:
    """Read everything that the checker wants to know."""
    with psycopg.connect(url) as db:
        runs = dict(db.execute("SELECT id, status FROM runs").fetchall())
        events: dict[str, list[dict[str, object]]] = {}
        for run, seq, kind in db.execute(
            "SELECT run_id, seq, data->>'type' FROM run_events ORDER BY run_id, seq"
        ):
            events.setdefault(run, []).append({"seq": seq, "type": kind})
        messages: dict[str, list[tuple[str, str]]] = {}
        for session, role, parts in db.execute(
            "SELECT session_id, role, parts FROM messages ORDER BY session_id, position"
        ):
            text = "".join(part["text"] for part in parts if part["type"] == "text")
            if text:
                messages.setdefault(session, []).append((role, text))
        [owned] = db.execute(
            "SELECT count(*) FROM runs WHERE owner_id IS NOT NULL AND status <> 'running'"
        ).fetchone() or (0,)
        [doing] = db.execute(
            "SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing'"
        ).fetchone() or (0,)
    return Stored(runs, events, messages, doing, owned)


@pytest.mark.req("P1", "P3", "P4", "P5", "P7", "EXEC-33", "EXEC-34", "EXEC-35", "EXEC-36")
@pytest.mark.timeout(0)
def test_nothing_is_lost_or_doubled_while_processes_die_sleep_and_end(
    data_dir: Path, scripted: ScriptedServer, request: pytest.FixtureRequest
) -> None:
    seconds = request.config.getoption("--chaos-seconds")
    seed = request.config.getoption("--chaos-seed") or secrets.randbelow(1_000_000)
    play(scripted)
    marks = data_dir.parent / "marks"
    add(data_dir.parent / "ext", "marks", MARKER)
    settings = provider(scripted) | {
        "GW_EXTENSIONS_PATH": str(data_dir.parent / "ext"),
        "MARKS": str(marks),
        "GW_MAX_ATTEMPTS": "1000",
        "GW_DRAIN_seconds": "1",
    }
    made = command("key", "create", "--name", "chaos", "--data-dir", str(data_dir))
    key = made.stdout.strip().splitlines()[-1]
    fleet = Fleet(data_dir, settings)
    chaos = Chaos(fleet, seed)
    try:
        wait_ready(fleet.urls)
        talkers = [Talker(f"talker{n}", fleet.urls, key, seed + n) for n in range(6)]
        chaos.start()
        until = time.monotonic() + seconds
        for talker in talkers:
            talker.start(until)
        pause(seconds)
        chaos.stop()
        for talker in talkers:
            talker.join()
        stuck = [str(talker.failure) for talker in talkers if talker.failure]
        url = embedded_url(data_dir)
        assert url is not None
        sent = [one for talker in talkers for one in talker.sent]
        effects = marks.read_text().split() if marks.exists() else []
        found = findings(sent, at_rest(url), effects)
        assert (stuck, found) == ([], []), f"seed {seed}: {chaos.done}"
        assert len(sent) >= len(talkers)
    finally:
        if chaos._thread.is_alive():
            chaos.stop()
        fleet.end()
