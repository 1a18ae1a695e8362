"""What people see of messages: the visible parts, as they are stored and listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import AIMessage, ToolMessage

from core.errors import GraphwrightError
from core.events import Executing, ToolCall, ToolResult
from core.records import MessageRecord, RunRecord, ToolResultRecord
from core.tooling import AgentSpec, ToolSpec
from core.types import MessageStatus

PREVIEW = 400
"""Characters of a tool result that events and history show."""

Part = dict[str, Any]


def same_source(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two sources are the same passage; scores and the like do not count."""
    return all(one.get(name) == other.get(name) for name in ("url", "snippet")) and (
        one.get("url") is not None or one.get("title") == other.get("title")
    )


def label_of(tools: Mapping[str, ToolSpec], name: str) -> str:
    """Return the name that people read; the tool's own where it is not known any more."""
    spec = tools.get(name)
    return spec.label if spec is not None else name


def untold_steps(agent: AgentSpec) -> frozenset[str]:
    """Return the steps whose messages middleware may still change; `judge` tells them."""
    return frozenset[str]() if agent.middleware is None else agent.middleware.untold


def text_parts(text: str, thinking: str) -> list[Part]:
    """Return the parts of what a model said."""
    parts: list[Part] = []
    if thinking:
        parts.append({"type": "thinking", "text": thinking})
    if text:
        parts.append({"type": "text", "text": text})
    return parts


def turn_parts(message: AIMessage, tools: Mapping[str, ToolSpec]) -> list[Part]:
    """Return the parts of one whole turn: reasoning, text, calls."""
    kwargs = cast("dict[str, Any]", message.additional_kwargs)
    parts = text_parts(message.text, str(kwargs.get("reasoning_content") or ""))
    parts += [
        {
            "type": "tool_call",
            "tool_call_id": call["id"],
            "tool": call["name"],
            "cn_tool": label_of(tools, call["name"]),
            "args": call["args"],
        }
        for call in calls_of(message)
    ]
    return parts


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    """Return the calls of a turn in order, those with unreadable arguments last."""
    whole: list[dict[str, Any]] = [
        {"id": str(call["id"] or ""), "name": call["name"], "args": call["args"]}
        for call in message.tool_calls
    ]
    broken: list[dict[str, Any]] = [
        {"id": str(call["id"] or ""), "name": str(call["name"] or ""), "args": {}}
        for call in message.invalid_tool_calls
    ]
    return whole + broken


def error_part(error: GraphwrightError) -> Part:
    """Return the part that says why a run failed."""
    return {"type": "error", "code": error.code, "message": error.message}


def message_record(
    run: RunRecord,
    message_id: str,
    parts: list[Part],
    at: datetime,
    status: MessageStatus = MessageStatus.COMPLETE,
) -> MessageRecord:
    """Return an assistant's message as a row; storage gives it its place."""
    return MessageRecord(
        id=message_id,
        session_id=run.session_id,
        run_id=run.id,
        position=0,
        role="assistant",
        parts=parts,
        status=status,
        created_at=at,
    )


def call_events(
    calls: Sequence[Mapping[str, Any]], label: str, agent_id: str
) -> list[Executing | ToolCall]:
    """Return what watchers are told of calls that a foreign graph carries out itself."""
    if not calls:
        return []
    names = [call["name"] for call in calls]
    batch = Executing(
        message=f"Running {', '.join(names)}", cn_agent=label, tools=names, cn_tools=names
    )
    single = [
        ToolCall(
            tool=call["name"],
            cn_tool=call["name"],
            args=call["args"],
            agent_id=agent_id,
            tool_call_id=call["id"],
        )
        for call in calls
    ]
    return [batch, *single]


def result_record(
    run: RunRecord, message_id: str, message: ToolMessage, at: datetime
) -> ToolResultRecord:
    """Return a tool's whole result as a row."""
    artifact = artifact_of(message)
    full = str(artifact.get("full", message.text))
    return ToolResultRecord(
        session_id=run.session_id,
        run_id=run.id,
        message_id=message_id,
        tool_call_id=message.tool_call_id,
        tool=str(artifact.get("tool") or message.name or ""),
        status=str(artifact.get("status") or "completed"),
        content=full,
        error=cast("str | None", artifact.get("error")),
        duration_ms=int(artifact.get("duration_ms") or 0),
        created_at=at,
        meta={
            "sources": artifact.get("sources") or [],
            **({"components": artifact["components"]} if artifact.get("components") else {}),
        },
    )


def result_event(
    record: ToolResultRecord, agent_id: str, tools: Mapping[str, ToolSpec]
) -> ToolResult:
    """Return what watchers are told of a tool's result."""
    return ToolResult(
        tool=record.tool,
        cn_tool=label_of(tools, record.tool),
        content=record.content[:PREVIEW],
        error=record.error,
        agent_id=agent_id,
        tool_call_id=record.tool_call_id,
        duration_ms=record.duration_ms,
    )


def artifact_of(message: ToolMessage) -> dict[str, Any]:
    """Return what a tool's result carries beside what the model sees."""
    artifact = cast("object", message.artifact)
    return cast("dict[str, Any]", artifact) if isinstance(artifact, dict) else {}
