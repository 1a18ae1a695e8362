"""A process of its own that uses an embedded cluster, possibly as another user.

python -m tests.support.cluster_member join DATA [USER]   says `ready URL`, leaves at a line
python -m tests.support.cluster_member spy DATA USER URL  says what that user gets to see
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import sys
import time
from pathlib import Path

import psycopg
import psycopg.sql

from core.errors import Unavailable
from storage import embedded
from storage.postgres import binaries


async def warm() -> None:
    """Load what is loaded late, while the rights to read it are there."""
    assert psycopg.sql
    await asyncio.to_thread(fcntl.flock, 1, fcntl.LOCK_UN)
    with contextlib.suppress(psycopg.OperationalError):
        await psycopg.AsyncConnection.connect("host=/nowhere user=a password=b")


def become(name: str) -> None:
    """Give up all rights but those of that user."""
    asyncio.run(warm())
    user = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.chdir("/")


async def join(data: Path) -> None:
    began = time.perf_counter()
    server = await embedded.EmbeddedPostgres.start(data, say=lambda text: print("say", text))
    print("ready", server.url, time.perf_counter() - began, flush=True)
    sys.stdin.readline()
    print("left", await server.leave(), flush=True)


def spy(data: Path, url: str) -> None:
    """Try to connect and to read every file; say what worked."""
    try:
        psycopg.connect(url, connect_timeout=5).close()
        print("connected", flush=True)
    except psycopg.OperationalError as error:
        print("refused", "denied" in str(error), flush=True)
    for path in (data, data / "pg", data / "pg" / "cluster", data / "pg" / "password"):
        try:
            print("read", list(path.iterdir()) if path.is_dir() else path.read_text())
        except OSError:
            print("hidden", path.name)


def main() -> None:
    what, data, *rest = sys.argv[1:]
    if what == "join":
        if rest:
            programs = binaries.binaries(embedded.account())
            embedded.binaries = lambda user: programs  # where this user may read it
            become(rest[0])
        try:
            asyncio.run(join(Path(data)))
        except Unavailable as error:
            print("failed", str(error).replace("\n", " | "), flush=True)
    else:
        become(rest[0])
        spy(Path(data), rest[1])


if __name__ == "__main__":
    main()
