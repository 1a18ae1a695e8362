"""Who is asking. One principal per request; every query is scoped by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from core.types import UserId, WorkspaceId


class Permission(StrEnum):
    """What a route may demand. Every route states exactly one."""

    CHAT_READ = "chat:read"
    CHAT_WRITE = "chat:write"
    PREFERENCES = "preferences"
    AGENTS_READ = "agents:read"
    AGENTS_WRITE = "agents:write"
    KEYS = "keys"
    HEALTH = "health"


ALL_PERMISSIONS = frozenset(Permission)


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller inside one workspace."""

    workspace_id: WorkspaceId
    user_id: UserId
    user_name: str
    via: Literal["cookie", "key", "script"]
    permissions: frozenset[Permission] = field(default=ALL_PERMISSIONS)
    key_id: str | None = None
    service: bool = False
    """Whether this key may act for other users of the workspace (IDENT-06)."""

    def may(self, permission: Permission) -> bool:
        """Tell whether this caller holds the permission."""
        return permission in self.permissions
