"""Measures a start until ready, and one run of the demo model, on the real server.

Prints for each figure how often it was taken, the median, and the smallest and largest value.
Nothing is asserted: figures depend on the machine, so they are read, not tested.

    make bench
    make bench ARGS="--starts 5 --runs 50"
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

GRAPHWRIGHT = Path(sys.executable).with_name("graphwright")
START_SECONDS = 180
STOP_SECONDS = 60


@contextmanager
def server(data: Path) -> Iterator[tuple[str, float]]:
    """Start a server of its own, give its address and the seconds until ready, and stop it."""
    mine = {"HOST": "127.0.0.1", "PORT": "0", "GW_ENV_PRIORITY": "none", "GW_TITLES": "off"}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GW_", "OPENAI_", "DATABASE"))}
    began = time.perf_counter()
    with (data.parent / "server.log").open("w") as log:
        child = subprocess.Popen(
            [GRAPHWRIGHT, "serve", "--data-dir", data],
            env=kept | mine, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        for line in child.stdout or ():
            if line.startswith("ready "):
                yield line.split()[1], time.perf_counter() - began
                break
        else:
            raise SystemExit((data.parent / "server.log").read_text())
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(STOP_SECONDS)


def one_run(client: httpx.Client, message: str) -> dict[str, float]:
    """Send one message and return milliseconds to the first event, the first token and the end."""
    began = time.perf_counter()
    seen: dict[str, float] = {}
    with client.stream("POST", "/api/chat", files={"message": (None, message)}) as answer:
        answer.raise_for_status()
        for line in answer.iter_lines():
            if line.startswith("data: "):
                kind = json.loads(line[6:])["type"]
                now = (time.perf_counter() - began) * 1000
                seen.setdefault("first event", now)
                if kind in ("token", "thinking_token"):
                    seen.setdefault("first token", now)
                seen["end"] = now
    return seen


def key_of(data: Path) -> str:
    """Make an API key beside the running server."""
    command = [GRAPHWRIGHT, "key", "create", "--name", "bench", "--data-dir", data]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def row(name: str, values: list[float], unit: str) -> str:
    """Return one line of the table."""
    middle = statistics.median(values)
    return f"| {name} | {len(values)} | {middle:.1f} {unit} | {min(values):.1f}–{max(values):.1f} |"


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--starts", type=int, default=3, help="starts on the same data folder")
    options.add_argument("--runs", type=int, default=20, help="runs, one after another")
    options.add_argument(
        "--message", default="What time is it?", help="what the demo model is sent"
    )
    given = options.parse_args()
    starts: list[float] = []
    runs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with server(data) as (_, first):
            pass
        for at in range(given.starts):
            with server(data) as (url, seconds):
                starts.append(seconds)
                if at == given.starts - 1:
                    headers = {"Authorization": f"Bearer {key_of(data)}"}
                    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
                        one_run(client, given.message)  # warms everything up
                        runs = [one_run(client, given.message) for _ in range(given.runs)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| figure | n | median | range |\n|---|---|---|---|")
    print(row("first start to ready, empty folder", [first], "s"))
    print(row("later start to ready", starts, "s"))
    for name in ("first event", "first token", "end"):
        print(row(f"one run: {name}", [run[name] for run in runs if name in run], "ms"))


if __name__ == "__main__":
    main()
