"""Looks at a batch of results: is the run getting anywhere (EXEC-05)?"""

from __future__ import annotations

import hashlib
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime

from core.context import RunContext
from core.errors import NoProgress, OutputTruncated
from nodes.call_model import too_often_truncated
from nodes.hooking import raise_broken
from nodes.sorting import signature
from nodes.state import State, loop_of, messages_of
from nodes.view import group

_REMEMBERED = 500


async def observe(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Count the batch and remember its results.

    Raises:
        NoProgress: so many batches in a row brought nothing new.
        HookError: a hook failed about one of them that is to end the run.
        OutputTruncated: three turns in a row hit the output limit in their calls.
    """
    ctx = runtime.context
    loop = loop_of(state)
    loop["steps"] += 1
    if too_often_truncated(loop):
        raise OutputTruncated
    sent = set((state.get("decisions") or {}).get("send", ()))
    seen, known = dict(loop["seen"]), set(loop["results"])
    fresh: list[str] = []
    for call, result in _last_batch(state):
        if result is None or call["id"] not in sent:
            continue
        raise_broken(result.artifact or {})
        sign = signature(call["name"], call["args"])
        mark = fingerprint(result)
        before = seen.get(sign)
        same = before is not None and before["result"] == mark
        refused = (result.artifact or {}).get("status") == "denied" and before is not None
        count = before["count"] + 1 if before and (same or refused) else 1
        kept = before["result"] if before and refused else mark
        seen[sign] = {"result": kept, "count": count}
        if result.status == "success" and mark not in known:
            fresh.append(mark)
    loop["seen"] = seen
    loop["results"] = [*loop["results"], *fresh][-_REMEMBERED:]
    loop["stall"] = 0 if fresh else loop["stall"] + 1
    if loop["stall"] >= ctx.limits.stall_steps:
        raise NoProgress(details={"steps": loop["stall"]})
    return {"loop": loop}


def fingerprint(result: ToolMessage) -> str:
    """Return a short text that is equal for equal results of the same tool."""
    artifact = result.artifact or {}
    text = f"{result.name}\x1f{artifact.get('status')}\x1f{artifact.get('full', result.content)}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _last_batch(state: State) -> list[tuple[dict[str, Any], ToolMessage | None]]:
    """Return the calls of the last turn with their results."""
    messages = messages_of(state)
    start = len(messages) - 1
    while start > 0 and isinstance(messages[start], ToolMessage):
        start -= 1
    groups = group(messages[start:])
    return groups[0].chosen if groups else []
