"""How a part of the server is doing, in words that `/health` shows to anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PartStatus = Literal["ok", "degraded", "down", "off"]
"""`degraded`: works, but something is missing; `off`: switched off on purpose."""


@dataclass(frozen=True, slots=True)
class Part:
    """One subsystem. Nothing in it may be secret: `/health` needs no credential."""

    name: str
    status: PartStatus
    cause: str = ""
    """What is the case, one sentence; needed where the status is not `ok`."""
    cure: str = ""
    """What mends it, one sentence."""
    needed: bool = False
    """Whether no run can start without it, so that the server is not ready."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Figures beside it, such as milliseconds of a ping."""
