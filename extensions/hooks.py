"""The records that hooks are given, by the points at which they are called."""

from __future__ import annotations

from core.hooks import (
    ContextBuilt,
    ContextPart,
    ContextParts,
    HookCall,
    HookMessage,
    HookRun,
    ModelAnswer,
    ModelRequest,
    RunEnd,
    RunStart,
    SubRunEnd,
    SubRunStart,
    SummaryRequest,
    SummaryText,
    ToolCall,
    ToolResult,
)

__all__ = [
    "ContextBuilt",
    "ContextPart",
    "ContextParts",
    "HookCall",
    "HookMessage",
    "HookRun",
    "ModelAnswer",
    "ModelRequest",
    "RunEnd",
    "RunStart",
    "SubRunEnd",
    "SubRunStart",
    "SummaryRequest",
    "SummaryText",
    "ToolCall",
    "ToolResult",
]
