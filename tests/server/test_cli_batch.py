"""`graphwright batch`: its file is checked whole, and its end says how it went (BATCH-04)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.process import COMMAND, ROOT, command, environment
from tests.support.scripted_server import ScriptedServer
from tests.support.scripted_turns import Gate, call, error, hold, say

pytestmark = [pytest.mark.req("BATCH-04"), pytest.mark.timeout(120)]


@pytest.fixture
def variables(database_url: str, scripted: ScriptedServer, tmp_path: Path) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "GW_DATA_DIR": str(tmp_path),
        "OPENAI_BASE_URL": scripted.base_url,
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_MODEL": "scripted",
        "OPENAI_MAX_RETRIES": "0",
        "HITL_TOOLS": "write_file",
    }


def written(path: Path, *lines: str | bytes) -> Path:
    encoded = (line if isinstance(line, bytes) else line.encode() for line in lines)
    path.write_bytes(b"\n".join(encoded))
    return path


def test_all_bad_lines_are_told_together_before_anything_starts(tmp_path: Path):
    path = written(
        tmp_path / "in.jsonl",
        '"good"',
        "",
        '{"message": "half',
        '{"mesage": "typo"}',
        b'"\xff"',
        '["list"]',
        '"good"',
        "[" * 100_000,
    )
    out = tmp_path / "out.jsonl"
    # An address where nobody listens: it is not even tried.
    away = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    ended = command("batch", str(path), "--out", str(out), settings=away)
    assert ended.returncode == 1
    assert [f"line {at}" in ended.stderr for at in range(1, 9)] == [
        True, False, True, True, True, True, True, True,
    ]  # fmt: skip
    assert "line 7 is the same as line 1" in ended.stderr
    assert "Did you mean 'message'" in ended.stderr
    # A line is named by one number only, and how it is to be is said.
    assert "line 3 is no JSON (column 13: " in ended.stderr
    assert 'Write "a text" or {"message": "…"}, each on one line.' in ended.stderr
    assert "save the file as UTF-8" in ended.stderr
    assert not out.exists()


def test_a_data_folder_that_is_a_file_is_told_with_its_setting(tmp_path: Path):
    path = written(tmp_path / "in.jsonl", '"good"')
    arguments = (str(path), "--out", str(tmp_path / "out.jsonl"), "--data-dir", str(path))
    ended = command("batch", *arguments)
    assert ended.returncode == 3
    assert "GW_DATA_DIR" in ended.stderr
    assert "is a file" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.jsonl", "--out", "out.jsonl"], "cannot be read"),
        (["in.jsonl", "--out", "in.jsonl"], "the file of inputs itself"),
        (["in.jsonl"], "--out"),
        (["in.jsonl", "--out", "o", "--concurrency", "0"], "--concurrency"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what(tmp_path: Path, arguments: list[str], said: str):
    written(tmp_path / "in.jsonl", '"good"')
    placed = [str(tmp_path / one) if one.endswith("jsonl") else one for one in arguments]
    ended = command("batch", *placed)
    assert (ended.returncode, said in ended.stderr) == (2, True)
    assert (tmp_path / "in.jsonl").read_bytes() == b'"good"'


def test_the_end_says_what_came_of_the_items_and_how_to_go_on(
    variables: dict[str, str], scripted: ScriptedServer, tmp_path: Path
):
    scripted.on_each("bad", error(401), say("better"))
    scripted.on("write", call("write_file", {"path": "/workspace/a", "content": "b"}), say("ok"))
    good = written(
        tmp_path / "good.jsonl", b"\xef\xbb\xbf" + b'"one"\r', '{"message": "two", "key": "t"}'
    )
    bad = written(tmp_path / "bad.jsonl", '"bad"')
    asks = written(tmp_path / "asks.jsonl", '"write"')

    def batch(path: Path, *more: str) -> subprocess.CompletedProcess[str]:
        out = str(path.with_suffix(".out"))
        return command("batch", str(path), "--out", out, *more, settings=variables)

    first = batch(good, "--user", "ann")
    assert (first.returncode, first.stdout) == (0, "")
    assert "2 items: 2 success" in first.stderr
    assert "(2 done before)" in batch(good, "--user", "ann", "--quiet").stderr
    failed = batch(bad)
    assert failed.returncode == 1
    assert "1 item: 1 failed" in failed.stderr
    assert "--retry-failed" in failed.stderr
    assert batch(bad, "--retry-failed").returncode == 0
    waits = batch(asks)
    assert waits.returncode == 5
    assert "wait for an answer" in waits.stderr
    keys = [json.loads(line)["key"] for line in good.with_suffix(".out").read_text().splitlines()]
    assert "t" in keys


def test_ctrl_c_cancels_what_is_under_way_and_the_next_start_does_it(
    variables: dict[str, str], scripted: ScriptedServer, tmp_path: Path
):
    gate = Gate()
    scripted.on_each("long", hold(say("cut"), gate, after=1), say("whole"))
    path, out = written(tmp_path / "in.jsonl", '"long"', '"short"'), tmp_path / "out.jsonl"
    arguments = ["batch", str(path), "--out", str(out)]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=environment(**variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert gate.reached.wait(40)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "goes on from here" in said
    assert "Traceback" not in said
    again = command(*arguments, settings=variables)
    assert again.returncode == 0, again.stderr
    outputs = sorted(json.loads(line)["output"] for line in out.read_text().splitlines())
    assert outputs == ["echo: short", "whole"]


def test_a_batch_goes_on_when_nobody_reads_its_output_any_more(
    variables: dict[str, str], tmp_path: Path
):
    path, out = written(tmp_path / "in.jsonl", '"one"', '"two"'), tmp_path / "out.jsonl"
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [*COMMAND, "batch", str(path), "--out", str(out)],
        cwd=ROOT,
        env=environment(**variables),
        stdout=writer,
        stderr=writer,
    )
    os.close(writer)
    assert process.wait(60) == 0
    assert len(out.read_text().splitlines()) == 2
    closed = subprocess.run(
        [
            "/bin/sh",
            "-c",
            '"$@" >&- 2>&-',
            "sh",
            *COMMAND,
            "batch",
            str(path),
            "--out",
            str(out),
            "--name",
            "b",
        ],
        cwd=ROOT,
        env=environment(**variables),
        timeout=60,
        check=False,
    )
    assert closed.returncode == 0
    assert len(out.read_text().splitlines()) == 4


def test_a_terminal_is_shown_a_bar(variables: dict[str, str], tmp_path: Path):
    path = written(tmp_path / "in.jsonl", *(f'"item {at}"' for at in range(5)))
    main, other = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, "batch", str(path), "--out", str(tmp_path / "out.jsonl")],
        cwd=ROOT,
        env=environment(**variables, TERM="xterm", COLUMNS="80"),
        stderr=other,
    )
    os.close(other)
    seen = b""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            seen += os.read(main, 4096)
        except OSError:
            break
    os.close(main)
    assert process.wait(10) == 0
    assert b"5/5" in seen
    assert "━".encode() in seen
