"""How each part is doing, with cause and cure: shared by `/health` and `doctor`."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final

from core.errors import Unavailable
from core.health import Part
from core.ports import Models
from core.registry import Assembly
from core.settings import Loaded
from storage.database import Database
from storage.migrate import pending

_DISK_LOW: Final = 1 << 30
"""Bytes left from which on we warn."""
_DISK_FULL: Final = 100 << 20
"""Bytes left from which on PostgreSQL and uploads will fail soon."""
_DATABASE_SECONDS: Final = 3.0
_SLOW_PING_MS: Final = 250.0


async def database_part(database: Database) -> Part:
    """Ask the database for an answer, but not for long."""
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            ms = await database.ping()
    except (Unavailable, TimeoutError) as error:
        cause = str(error) or f"It does not answer within {_DATABASE_SECONDS:.0f} s."
        cure = "Look at the server's log; `graphwright doctor` checks the database step by step."
        return Part("database", "down", cause, cure, needed=True)
    facts = {"ping_ms": round(ms, 1)}
    if ms > _SLOW_PING_MS:
        cause = "It answers slowly."
        cure = "Look for load on the machine or the network between the two."
        return Part("database", "degraded", cause, cure, needed=True, facts=facts)
    return Part("database", "ok", needed=True, facts=facts)


async def migrations_part(url: str) -> Part:
    """Tell whether the tables are those of this version."""
    try:
        async with asyncio.timeout(_DATABASE_SECONDS):
            missing = await pending(url)
    except (Unavailable, TimeoutError):
        return Part("migrations", "down", "The database does not answer.", needed=True)
    if missing:
        cause = f"{len(missing)} migrations are missing: {', '.join(missing)}."
        facts = {"missing": missing}
        cure = "Run `graphwright migrate`, or start the server anew."
        return Part("migrations", "down", cause, cure, needed=True, facts=facts)
    return Part("migrations", "ok", needed=True)


def model_part(models: Models) -> Part:
    """Tell which model answers by default; never asks the provider anything."""
    model = models.get(None)
    facts = {
        "name": model.name,
        "provider": model.provider,
        "demo": model.is_demo,
        "models": models.names(),
    }
    if model.is_demo:
        cause = "No model is configured; the built-in demo model answers."
        cure = "Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL in .env and start anew."
        return Part("model", "degraded", cause, cure, needed=True, facts=facts)
    return Part("model", "ok", needed=True, facts=facts)


def extensions_part(assembly: Assembly) -> Part:
    """Name what was loaded; a faulty extension would have stopped the start."""
    facts = {
        "loaded": list(assembly.extensions),
        "disabled": list(assembly.disabled_extensions),
        "agents": sorted(assembly.agents),
        "tools": len(assembly.tools),
    }
    return Part("extensions", "ok", facts=facts)


async def disk_part(data_dir: Path) -> Part:
    """Tell how much room the data folder has left."""
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, _existing(data_dir))
    except OSError as error:
        cause = f"The data folder cannot be looked at: {error.strerror}."
        return Part("disk", "down", cause, "Check that it exists and belongs to this user.")
    facts = {"free_mb": usage.free >> 20, "total_mb": usage.total >> 20}
    cure = "Make room on the disk of the data folder, or move it with GW_DATA_DIR."
    if usage.free < _DISK_FULL:
        return Part("disk", "down", "The disk is full.", cure, facts=facts)
    if usage.free < _DISK_LOW:
        return Part("disk", "degraded", "The disk is nearly full.", cure, facts=facts)
    return Part("disk", "ok", facts=facts)


def settings_part(loaded: Loaded) -> Part:
    """Repeat what was odd about where settings came from; values are masked."""
    warnings = loaded.warnings()
    if not warnings:
        return Part("settings", "ok")
    cure = "Remove one of the two values, or correct the name."
    return Part("settings", "degraded", "; ".join(warnings) + ".", cure)


def workbench_part(static: Path) -> Part:
    """Tell whether there is a page to look at."""
    if (static / "index.html").is_file():
        cause = "The chat workbench is not built yet; a page that explains the API stands there."
        return Part("workbench", "off", cause, "Use the API, or `graphwright chat`.")
    cause = "static/index.html is missing."
    return Part("workbench", "degraded", cause, "Restore the folder static/ from the repository.")


def sandbox_part() -> Part:
    """Say honestly that nothing runs code yet."""
    cause = "There is no sandbox yet, so tools that run commands or code are not offered."
    return Part("sandbox", "off", cause, "The file tools work without one.")


def scheduler_part() -> Part:
    """Say honestly that nothing is scheduled yet."""
    return Part("scheduler", "off", "Schedules are not offered yet.", "Start runs with /api/chat.")


def _existing(path: Path) -> Path:
    """Return the folder itself, or the nearest one above it that is there already."""
    resolved = path.resolve()
    return next(place for place in (resolved, *resolved.parents) if place.exists())
