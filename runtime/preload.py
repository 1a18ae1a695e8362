"""Loads LangGraph and our graphs in a thread, the first time they are needed.

They are a third of all that is loaded. A server is ready without them; `server.serve` asks for
them as soon as it is, so that hardly any run ever waits here. Modules of this room import
them inside functions that run after `graphs_loaded`.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Final

_MODULES: Final = ("graphs.agent", "graphs.settle", "graphs.sizes", "storage.checkpointer")
_loaded: list[bool] = []
"""Filled once everything is there; a half-loaded module is in `sys.modules` already."""


async def graphs_loaded() -> None:
    """Return once the graphs can be imported without holding up the event loop."""
    if not _loaded:
        await asyncio.to_thread(_load)


def _load() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    _loaded.append(True)
