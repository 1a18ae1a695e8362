"""Tells other processes, inside the transaction that stores it, what there is to read or to do."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from psycopg import AsyncConnection

EVENTS = "gw_events"
"""Channel whose payload is a JSON list of `[run_id, last_seq]`."""

CONTROL = "gw_control"
"""Channel whose payload is a JSON object such as `{"cancel": run_id}`."""

RUNS_A_NOTICE = 120
"""A notification holds at most 8,000 bytes; a run and its number take up to 60."""


async def announce_events(connection: AsyncConnection, reached: Iterable[tuple[str, int]]) -> None:
    """Say how far these runs have come; heard by others when the transaction commits."""
    pairs = list(reached)
    for start in range(0, len(pairs), RUNS_A_NOTICE):
        payload = orjson.dumps(pairs[start : start + RUNS_A_NOTICE]).decode()
        await connection.execute("SELECT pg_notify(%s, %s)", (EVENTS, payload))


async def announce_cancel(connection: AsyncConnection, run_id: str) -> None:
    """Ask whoever carries out this run to stop it."""
    payload = orjson.dumps({"cancel": run_id}).decode()
    await connection.execute("SELECT pg_notify(%s, %s)", (CONTROL, payload))
