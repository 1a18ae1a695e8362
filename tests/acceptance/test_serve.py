"""Starting, using and ending the server as a person does."""

from __future__ import annotations

import signal
import socket
import threading
from pathlib import Path

import httpx
import pytest

from tests.acceptance.client import new_key, text_of, types_of
from tests.acceptance.conftest import Connect, provider
from tests.support.postmaster import postmaster_pid
from tests.support.process import ServerProcess, command, end, server, start_server
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, hold, say
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)


@pytest.mark.req("OPS-01", "OPS-05")
def test_a_ready_server_answers_and_says_what_it_lacks(running: ServerProcess) -> None:
    assert httpx.get(f"{running.url}/health/ready").status_code == 200
    health = httpx.get(f"{running.url}/health").json()
    parts = {part["id"]: part for part in health["parts"]}
    assert {"database", "migrations", "worker", "model", "extensions", "disk"} <= set(parts)
    assert {"settings", "sandbox", "scheduler", "workbench"} <= set(parts)
    assert parts["model"]["facts"]["demo"] is True
    assert all(part["cause"] for part in parts.values() if part["status"] != "ok")
    assert all(part["cure"] for part in parts.values() if part["status"] == "degraded")
    assert str(running.data_dir) not in httpx.get(f"{running.url}/health").text


@pytest.mark.req("OPS-01", "IDENT-02")
def test_the_printed_link_signs_in_once_and_never_stands_in_the_log(
    running: ServerProcess,
) -> None:
    token = running.link.partition("token=")[2]
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        assert browser.get(running.link).status_code == 200
        me = browser.get(f"{running.url}/api/auth/me").json()
        assert me["signed_in"] is True
        assert browser.get(f"{running.url}/api/sessions").status_code == 200
    assert httpx.get(running.link).status_code == 401
    assert token not in "\n".join(running.log)
    made = command("link", "--data-dir", str(running.data_dir))
    assert httpx.get(made.stdout.strip()).status_code == 303


@pytest.mark.req("OPS-03", "IDENT-03")
def test_a_key_made_beside_the_server_is_alone_on_stdout_and_works_until_revoked(
    running: ServerProcess,
) -> None:
    folder = str(running.data_dir)
    made = command("key", "create", "--name", "my program", "--data-dir", folder)
    key = made.stdout.removesuffix("\n")
    assert made.returncode == 0
    assert key
    assert not any(char.isspace() for char in key)
    bearer = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{running.url}/api/sessions", headers=bearer).status_code == 200
    listed = command("key", "list", "--data-dir", folder)
    assert key not in listed.stdout
    line = next(line for line in listed.stdout.splitlines() if "my program" in line)
    assert command("key", "revoke", line.split()[0], "--data-dir", folder).returncode == 0
    wait_until(
        lambda: httpx.get(f"{running.url}/api/sessions", headers=bearer).status_code == 401,
        "the revoked key is refused",
        seconds=6,
    )


@pytest.mark.req("OPS-15")
def test_the_front_page_and_what_it_needs_are_there_without_a_credential(
    running: ServerProcess,
) -> None:
    with httpx.Client(base_url=running.url, trust_env=False) as browser:
        page = browser.get("/")
        assert page.status_code == 200
        assert "unsafe-inline" not in page.headers["content-security-policy"]
        assert "<script>" not in page.text
        for path in ("app.js", "style.css", "icon.svg", "texts/en.json", "texts/zh-CN.json"):
            assert browser.get(f"/static/{path}").status_code == 200, path
        assert browser.get("/docs").status_code == 200
        assert browser.get("/api/sessions").status_code == 401


@pytest.mark.req("OPS-01", "CHAT-01")
def test_the_demo_model_answers_over_the_wire(running: ServerProcess, connect: Connect) -> None:
    client = connect(running)
    frames = client.chat("What is 17 * 23?")
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    assert types_of(frames)[-1] == "done"
    assert "391" in text_of(frames)


@pytest.mark.req("OPS-06")
def test_prompts_answers_and_keys_never_stand_in_the_log(
    running: ServerProcess, connect: Connect
) -> None:
    key = new_key(running, "canary")
    client = connect(running, key)
    client.chat("canary-of-the-prompt, what is 2 * 3?")
    client.http.get("/api/sessions", params={"q": "canary-of-the-query"})
    wait_until(lambda: "path=/api/sessions" in "\n".join(running.log), "the request is logged")
    log = "\n".join(running.log)
    assert "canary-of" not in log
    assert key not in log


@pytest.mark.req("OPS-03")
def test_a_taken_port_is_said_with_its_cure_and_nothing_is_started(data_dir: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        told = command("serve", "--port", port, "--data-dir", str(data_dir))
    assert told.returncode == 3
    assert port in told.stderr
    assert "--port" in told.stderr
    assert not data_dir.exists()


@pytest.mark.req("IDENT-02")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_local_mode_refuses_to_listen_beyond_this_machine(data_dir: Path, host: str) -> None:
    told = command("serve", "--host", host, "--port", "0", "--data-dir", str(data_dir))
    assert told.returncode == 3
    assert "HOST=127.0.0.1" in told.stderr
    assert not data_dir.exists()


@pytest.mark.req("OPS-04", "EXEC-23")
def test_all_faults_are_told_at_once_before_the_database_is_touched(data_dir: Path) -> None:
    wrong = {"HITL_TOOLS": "calculat,no_such", "OPENAI_BASE_URL": "http://"}
    told = command("serve", "--port", "0", "--data-dir", str(data_dir), settings=wrong)
    assert told.returncode == 3
    assert "OPENAI_BASE_URL" in told.stderr or "calculat" in told.stderr
    hitl = {"HITL_TOOLS": "calculat,no_such"}
    told = command("serve", "--port", "0", "--data-dir", str(data_dir), settings=hitl)
    assert told.returncode == 3
    assert "calculat" in told.stderr
    assert "no_such" in told.stderr
    assert "Traceback" not in told.stderr
    assert not data_dir.exists()


@pytest.mark.req("OPS-02", "OPS-03")
def some_keys_are_made_without_a_server_and_two_servers_share_one_folder(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    made = command("key", "create", "--name", "early", "--data-dir", str(data_dir))
    assert made.returncode == 0, made.stderr
    assert postmaster_pid(data_dir) is None  # the last one to leave stopped it
    key = made.stdout.strip()
    with server(data_dir, **provider(scripted)) as one:
        cluster = postmaster_pid(data_dir)
        with server(data_dir, **provider(scripted)) as two:
            assert postmaster_pid(data_dir) == cluster
            first, second = connect(one, key), connect(two, key)
            frames = first.chat("hello")
            session_id = frames[0]["session_id"]
            assert second.history(session_id) == first.history(session_id)
            assert one.stop() == 0
            assert postmaster_pid(data_dir) == cluster
            assert text_of(second.chat("again", session_id=session_id)) == "echo: again"
        assert postmaster_pid(data_dir) is None


@pytest.mark.req("OPS-01", "EXEC-32")
def test_a_told_server_lets_the_running_answer_end_and_then_goes(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    gate = Gate()
    scripted.on("slow", hold(say("a long answer that is whole"), gate, after=3))
    with server(data_dir, **provider(scripted)) as started:
        client = connect(started)
        stream = client.stream("POST", "/api/chat", data={"message": "slow"})
        frames = [next(frame for frame in stream if frame["type"] == "token")]
        started.signal(signal.SIGTERM)
        wait_until(lambda: "ending" in "\n".join(started.log), "the signal is heard")
        assert started.process.poll() is None
        gate.open()
        frames += list(stream)
        assert frames[-1]["type"] == "done"
        assert text_of(frames) == "a long answer that is whole"
        assert started.wait() == 0


@pytest.mark.req("OPS-01")
def test_a_second_signal_ends_the_server_at_once(
    data_dir: Path, scripted: ScriptedServer, connect: Connect
) -> None:
    scripted.on("slow", hold(say("never seen"), Gate(), after=2))
    started = start_server(data_dir, **provider(scripted)).wait_ready()
    try:
        client = connect(started)
        stream = client.stream("POST", "/api/chat", data={"message": "slow"})
        next(frame for frame in stream if frame["type"] == "token")
        started.signal(signal.SIGINT)
        wait_until(lambda: "ending" in "\n".join(started.log), "the first signal is heard")
        started.signal(signal.SIGINT)
        assert started.wait(5) == 130
    finally:
        end(started)


@pytest.mark.req("OPS-01")
def test_a_signal_during_the_start_leaves_nothing_running(data_dir: Path) -> None:
    started = start_server(data_dir)
    try:
        heard = threading.Event()
        wait_until(lambda: bool(started.log) or heard.is_set(), "the start has begun")
        started.signal(signal.SIGTERM)
        assert started.wait() == 0
        assert started.out == []
        assert postmaster_pid(data_dir) is None
    finally:
        end(started)
