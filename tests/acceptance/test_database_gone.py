"""The database is killed under a living server: it comes back, and nothing was lost (P1, D02)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.acceptance.client import Frame, new_key, text_of
from tests.acceptance.conftest import Connect, provider
from tests.support.postmaster import kill_postmaster
from tests.support.process import server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, hold, say
from tests.support.waiting import wait_until

ANSWER = "one two three four five six"


@pytest.mark.timeout(240)
@pytest.mark.req("OPS-02", "OPS-05", "EXEC-39", "D02", "P1")
def test_a_run_outlives_the_kill_of_its_database(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    gate = Gate()
    scripted.on("first", call("now", {}), hold(say(ANSWER, size=4), gate, after=3), say(ANSWER))
    scripted.on("second", say("still here"))
    with server(data_dir, **provider(scripted)) as started:
        client = connect(started, new_key(started))
        frames: list[Frame] = []

        def watch() -> None:
            frames.extend(client.chat("first"))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        assert gate.reached.wait(20)
        kill_postmaster(data_dir)
        wait_until(lambda: client.http.get("/health/ready").status_code == 503, "health is down")
        assert client.http.get("/health/live").status_code == 200
        answer = client.http.get("/api/sessions")
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"]["code"] == "unavailable"
        gate.open()
        wait_until(lambda: client.http.get("/health/ready").status_code == 200, "it is back", 60)
        watcher.join(40)
        assert not watcher.is_alive()
        session_id = client.get("/api/sessions")["items"][0]["id"]
        run = client.get(f"/api/sessions/{session_id}/runs")["items"][0]
        wait_until(lambda: client.run_status(session_id) == "success", "the run has ended")
        # Who watched all the time saw the very log that is stored.
        stored = list(client.stream("GET", f"/api/runs/{run['id']}/events"))
        assert [frame["seq"] for frame in stored] == list(range(1, len(stored) + 1))
        assert frames == stored
        resets = [n for n, frame in enumerate(stored) if frame["type"] == "message_reset"]
        assert text_of(stored[resets[-1] if resets else 0 :]) == ANSWER
        assert text_of(client.chat("second", session_id=session_id)) == "still here"
    assert scripted.refused == []
