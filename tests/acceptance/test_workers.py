"""Worker processes: runs are carried out beside the server, taken over, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.client import Client, new_key, text_of
from tests.acceptance.conftest import provider
from tests.support.process import COMMAND, ROOT, ServerProcess, end, environment, server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, hold, say, slow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("EXEC-32"), pytest.mark.timeout(180)]

Connect = Callable[[ServerProcess, str], Client]


def workers_of(started: ServerProcess) -> list[int]:
    """Return the ids of a server's worker processes."""
    found = subprocess.run(
        ["ps", "--ppid", str(started.process.pid), "-o", "pid=,args="],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [int(line.split()[0]) for line in found.splitlines() if " worker " in f"{line} "]


def gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@contextmanager
def worker(data_dir: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """Give a worker of its own that works."""
    process = subprocess.Popen(
        [*COMMAND, "worker", "--data-dir", str(data_dir)],
        cwd=ROOT,
        env=environment(**settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("working ")
        yield process
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


def test_a_server_with_workers_carries_out_no_runs_itself_and_they_end_with_it(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    scripted.on("hello", lambda seen: slow(say(f"echo {seen.last_user}"), 0.02))
    with server(data_dir, "--workers", "2", **provider(scripted)) as started:
        pids = workers_of(started)
        assert len(pids) == 2
        client = connect(started, new_key(started))
        for number in range(4):
            frames = client.chat(f"hello {number}")
            assert frames[-1]["type"] == "done"
            assert text_of(frames) == f"echo hello {number}"
        health = client.get("/health")
        (part,) = [part for part in health["parts"] if part["id"] == "worker"]
        assert (part["status"], part["facts"]["processes"]) == ("ok", 2)
    wait_until(lambda: all(map(gone, pids)), "its workers have ended")


@pytest.mark.req("EXEC-33", "P1")
def test_a_run_of_a_killed_worker_goes_on_in_another_and_its_place_is_filled_again(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    gate = Gate()
    scripted.on_each("work", hold(say("cut here", size=4), gate, after=2), say("whole"))
    with server(data_dir, "--workers", "2", **provider(scripted)) as started:
        client = connect(started, new_key(started))
        pids = workers_of(started)
        stream = client.stream("POST", "/api/chat", data={"message": "work"})
        seen = next(frame for frame in stream if frame["type"] == "token")
        # Both: nobody knows which of them has the run.
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        gate.open()
        rest = list(stream)
        assert rest[-1]["type"] == "done", rest[-1]
        frames = list(client.stream("GET", f"/api/runs/{seen['run_id']}/events"))
        assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
        history = client.history(seen["session_id"])
        assert history[-1]["parts"] == [{"type": "text", "text": "whole"}]
        wait_until(lambda: len(workers_of(started)) == 2, "the places are filled again")
        assert not set(workers_of(started)) & set(pids)


@pytest.mark.req("EXEC-33")
def test_the_workers_of_a_server_that_was_killed_end_by_themselves(
    data_dir: Path, scripted: ScriptedServer
) -> None:
    started = None
    try:
        with server(data_dir, "--workers", "1", **provider(scripted)) as started:
            pids = workers_of(started)
            started.kill()
            wait_until(lambda: all(map(gone, pids)), "its workers have ended")
    finally:
        if started is not None:
            end(started)


@pytest.mark.req("EXEC-36")
def test_a_worker_of_its_own_joins_a_server_and_hands_its_runs_over_when_it_ends(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    gate = Gate()
    scripted.on_each("work", hold(say("cut here", size=4), gate, after=2), say("whole"))
    scripted.on("hello", say("hi"))
    settings = provider(scripted) | {"GW_DRAIN_SECONDS": "0.2", "GW_WORKER_CONCURRENCY": "1"}
    with server(data_dir, **settings) as started:
        client = connect(started, new_key(started))
        with worker(data_dir, **settings):
            streams = [
                client.stream("POST", "/api/chat", data={"message": "work"}),
            ]
            seen = next(frame for frame in streams[0] if frame["type"] == "token")
            assert client.chat("hello")[-1]["type"] == "done"
        gate.open()
        rest = list(streams[0])
        assert rest[-1]["type"] == "done"
        frames = list(client.stream("GET", f"/api/runs/{seen['run_id']}/events"))
        assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))


def test_a_server_without_any_worker_says_so(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    with server(data_dir, "--workers", "1", **provider(scripted)) as started:
        client = connect(started, new_key(started))
        for pid in workers_of(started):
            os.kill(pid, signal.SIGSTOP)
        try:

            def down() -> bool:
                answer = client.http.get("/health")
                parts = answer.json()["parts"]
                (part,) = [part for part in parts if part["id"] == "worker"]
                return part["status"] == "down" and "graphwright worker" in part["cure"]

            wait_until(down, "the health says that nobody works")
            assert client.http.get("/health/ready").status_code == 503
        finally:
            for pid in workers_of(started):
                os.kill(pid, signal.SIGCONT)
