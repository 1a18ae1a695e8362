"""Shapes of health."""

from __future__ import annotations

from typing import Any

from api.schemas import Output
from core.health import PartStatus


class PartOut(Output):
    """How one subsystem does."""

    id: str
    status: PartStatus
    cause: str
    cure: str
    needed: bool
    facts: dict[str, Any]


class Health(Output):
    """How the server does. `status` is that of its worst needed part."""

    status: PartStatus
    version: str
    parts: list[PartOut]


class Live(Output):
    """The process answers."""

    status: str = "ok"


class Ready(Output):
    """Whether a run could start, and what is missing where not."""

    ready: bool
    missing: list[PartOut]
