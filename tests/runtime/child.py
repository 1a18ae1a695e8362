"""A runtime in a process of its own, so that a test can kill it: `python -m tests.runtime.child`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from core import faults
from tests.runtime.conftest import Bench


async def main(given: dict[str, Any]) -> None:
    """Work until killed; says `ready` first."""
    faults.arm(given["faults"])
    async with AsyncExitStack() as stack:
        bench = Bench(given["url"], Path(given["folder"]), given["provider"], stack)
        ground = await bench.open(**given["settings"])
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if given["message"]:
            await ground.submit(given["message"])
        await asyncio.Event().wait()


class Child:
    """The process, from the test's side."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def kill(self) -> None:
        """End it as a crash does: nothing is signed off, nothing is settled."""
        self.signal(signal.SIGKILL)
        await self.ended()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process.returncode is None:
            os.kill(self._process.pid, number)

    async def ended(self) -> None:
        """Wait until it is gone."""
        async with asyncio.timeout(20):
            await self._process.wait()


async def child(bench: Bench, fault: str = "", message: str = "", **settings: Any) -> Child:
    """Start a runtime on the bench's database in a process of its own, which may send a message."""
    given = {
        "url": bench.url,
        "folder": str(bench.folder),
        "provider": bench.provider,
        "faults": fault,
        "message": message,
        "settings": settings,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.runtime.child",
        json.dumps(given),
        stdout=asyncio.subprocess.PIPE,
    )
    started = Child(process)
    bench.stack.push_async_callback(started.kill)
    assert process.stdout is not None
    async with asyncio.timeout(40):
        assert await process.stdout.readline() == b"ready\n"
    return started


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
