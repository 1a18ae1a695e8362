"""Last step of a run; also the place where a stopped run is settled."""

from __future__ import annotations

from typing import Any

from nodes.state import State


async def finish(state: State) -> dict[str, Any]:  # noqa: ARG001 - the signature of a node
    """Forget how the last turn's calls were sorted."""
    return {"decisions": {}}
