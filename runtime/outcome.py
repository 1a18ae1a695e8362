"""How a run in memory came to rest, as plain data that a test of an extension can look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.events import dump
from core.records import RunRecord, ToolResultRecord
from core.types import RunStatus
from runtime.memory import RunLog


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one tool call ended."""

    tool: str
    args: dict[str, Any]
    status: str
    """`completed`, `failed`, `denied`, `timeout` or `cancelled`."""
    data: Any
    """What the tool returned, as JSON; the message where it failed."""
    error: str | None
    sources: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """What a run waits for. The fields of other kinds are empty."""

    kind: Literal["tool_approval", "ask_user", "plan_approval"]
    message: str
    calls: list[dict[str, Any]]
    """Of an approval: `tool`, `args`, `reason`, `tool_call_id`, `allowed_decisions` of each."""
    questions: list[dict[str, Any]]
    """Of `ask_user`: `question`, `kind`, `options` of each."""
    plan: str


@dataclass(frozen=True, slots=True)
class Result:
    """How a run came to rest: at its end, or at a question."""

    status: str
    """`success`, `waiting_input` or `failed`."""
    answer: str
    """The text of the last turn; empty while the run waits."""
    results: list[ToolResult]
    """Those of the whole run so far, in the order of the calls."""
    events: list[dict[str, Any]]
    """Those that a client would see, in order."""
    question: Question | None
    error: str | None
    """Code of the error with which the run failed."""
    citations: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one type, such as `progress`."""
        return [event for event in self.events if event["type"] == kind]


def result_of(run: RunRecord, log: RunLog) -> Result:
    """Return how a run came to rest."""
    results = [
        _tool_result(part, log.results[message.id, part["tool_call_id"]])
        for message in log.messages.values()
        for part in message.parts
        if part["type"] == "tool_call" and (message.id, part["tool_call_id"]) in log.results
    ]
    events = [dump(event) for event in log.events]
    cited = [item for event in events if event["type"] == "citations" for item in event["items"]]
    return Result(
        status=run.status.value,
        answer=_answer(log) if run.status is not RunStatus.WAITING_INPUT else "",
        results=results,
        events=events,
        question=question_of(log),
        error=run.error_code,
        citations=cited,
    )


def _tool_result(call: Mapping[str, Any], record: ToolResultRecord) -> ToolResult:
    return ToolResult(
        tool=record.tool,
        args=call["args"],
        status=record.status,
        data=_data(record.content),
        error=record.error,
        sources=record.meta["sources"],
    )


def _answer(log: RunLog) -> str:
    """Return the text of the last message that an agent wrote."""
    spoken = [one for one in log.messages.values() if one.role == "assistant"]
    parts = spoken[-1].parts if spoken else []
    return "".join(part["text"] for part in parts if part["type"] == "text")


def question_of(log: RunLog) -> Question | None:
    """Return what a run waits for, if it waits."""
    if log.interrupt is None:
        return None
    kind, card = log.interrupt.kind.value, log.interrupt.card
    said = card[kind]
    return Question(
        kind=kind,
        message=card["message"],
        calls=said.get("calls", []),
        questions=said.get("questions", []),
        plan=said.get("plan", ""),
    )


def _data(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content
