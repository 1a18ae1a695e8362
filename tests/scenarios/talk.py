"""One user's conversation with a served product."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.app import Reply, Served, chat, read, resume


@dataclass
class Talk:
    """Sends messages and answers as the owner of the product."""

    served: Served
    client: httpx.AsyncClient
    data_dir: Path

    async def chat(self, message: str, **fields: Any) -> Reply:
        """Send a message and read the stream to its end."""
        return await chat(self.client, message, **fields)

    async def resume(self, reply: Reply, **answer: Any) -> Reply:
        """Answer what a stream ended with."""
        return await resume(self.client, reply, **answer)

    async def follow(self, path: str, **options: Any) -> Reply:
        """Attach to a stream and read it to its end."""
        return await read(self.client, "GET", path, **options)
