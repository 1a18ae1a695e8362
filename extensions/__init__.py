"""The author's door: everything an extension needs, re-exported."""

from __future__ import annotations

from core.errors import ToolDenied, ToolFailed
from core.log import get_logger
from core.registry import Registry
from core.settings import get_setting
from core.tooling import Source, Sourced, ToolContext, define_tool, source, sourced
from runtime.services import get_service

__all__ = [
    "Registry",
    "Source",
    "Sourced",
    "ToolContext",
    "ToolDenied",
    "ToolFailed",
    "define_tool",
    "get_logger",
    "get_service",
    "get_setting",
    "source",
    "sourced",
]
