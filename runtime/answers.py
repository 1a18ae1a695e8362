"""Checks an answer against the card it answers, before anything is spent or stored.

What passes here reaches the graph as it is; what does not leaves the question answerable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from core.errors import Invalid, ToolArgumentsInvalid
from core.tooling import ToolSpec
from core.types import InterruptKind

TEXT_LIMIT = 20_000
"""Characters of one message or answer."""

ENTRIES_LIMIT = 1_000
"""Decisions or answers at once; no card has more."""

PLAN_LIMIT = 200_000
"""Characters of a plan."""

MOST = 200
"""Entries of one list; no card asks for more."""

KEYS = {
    "approve": {"type", "tool_call_id", "always"},
    "edit": {"type", "tool_call_id", "args"},
    "reject": {"type", "tool_call_id", "message"},
    "respond": {"type", "tool_call_id", "message"},
}
"""What a decision of each type may say. None may name another tool."""

Scope = Literal["session", "workspace"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that fits its card."""

    value: dict[str, Any]
    """What the graph is resumed with."""
    decisions: list[dict[str, Any]]
    """What is recorded and shown to other watchers."""
    grants: list[tuple[Scope, str]] = field(default_factory=list[tuple[Scope, str]])
    """Tools that need not be asked for again."""


def check_answer(
    kind: InterruptKind, card: Mapping[str, Any], raw: Any, tools: Mapping[str, ToolSpec]
) -> Answer:
    """Return the answer in the form the graph takes.

    Args:
        kind: what was asked.
        card: the `interrupt` event as JSON.
        raw: what the client sent beside session and token.
        tools: the agent's tools by name.

    Raises:
        Invalid: the answer does not fit; the message says where.
    """
    body = _object(raw, "the answer")
    match kind:
        case InterruptKind.TOOL_APPROVAL:
            return _check_decisions(card["tool_approval"]["calls"], body, tools)
        case InterruptKind.ASK_USER:
            return _check_answers(card["ask_user"]["questions"], body)
        case InterruptKind.PLAN_APPROVAL:
            return _check_plan(body)


# Approvals --------------------------------------------------------------------------------


def _check_decisions(
    calls: Sequence[Mapping[str, Any]], body: dict[str, Any], tools: Mapping[str, ToolSpec]
) -> Answer:
    _only(body, {"decisions"}, "the answer")
    given = _list(body.get("decisions"), "decisions")
    by_id = {str(call["tool_call_id"]): call for call in calls}
    decided: dict[str, dict[str, Any]] = {}
    for index, item in enumerate(given):
        where = f"decisions[{index}]"
        decision = _object(item, where)
        call_id = _call_id(decision, where, list(by_id))
        if call_id in decided:
            raise Invalid(f"{where}: the call {call_id} is decided twice.")
        decided[call_id] = _decision(decision, by_id[call_id], where, tools)
    missing = [call_id for call_id in by_id if call_id not in decided]
    if missing:
        raise Invalid(
            "A decision is missing for some calls; nothing was decided.",
            details={"missing": missing},
        )
    # In the order of the calls, whatever order the client sorted its cards in.
    decisions = [decided[call_id] for call_id in by_id]
    grants: list[tuple[Scope, str]] = [
        (cast("Scope", decision["always"]), str(by_id[decision["tool_call_id"]]["tool"]))
        for decision in decisions
        if "always" in decision
    ]
    value = [
        {key: item for key, item in decision.items() if key != "always"} for decision in decisions
    ]
    return Answer({"decisions": value}, decisions, grants)


def _call_id(decision: Mapping[str, Any], where: str, pending: Sequence[str]) -> str:
    call_id = decision.get("tool_call_id")
    if call_id is None and len(pending) == 1:
        # The old single form: with one call there is nothing to mix up.
        return pending[0]
    if call_id is None:
        raise Invalid(f"{where}: several calls wait, so tool_call_id must say which is meant.")
    if not isinstance(call_id, str) or call_id not in pending:
        raise Invalid(
            f"{where}: no call with this tool_call_id waits.", details={"pending": list(pending)}
        )
    return call_id


def _decision(
    decision: Mapping[str, Any],
    call: Mapping[str, Any],
    where: str,
    tools: Mapping[str, ToolSpec],
) -> dict[str, Any]:
    kind = decision.get("type")
    if kind != "respond":
        decision = _unless_blank(decision, "message")
    allowed = list(call["allowed_decisions"])
    if not isinstance(kind, str) or kind not in allowed:
        raise Invalid(f"{where}: type must be one of {', '.join(allowed)}.")
    _only(decision, KEYS[kind], where)
    checked: dict[str, Any] = {"tool_call_id": call["tool_call_id"], "type": kind}
    if kind == "edit":
        checked["args"] = _edited(decision, call, where, tools)
    if kind == "respond" or _given(decision):
        checked["message"] = _text(decision.get("message"), f"{where}.message")
    if decision.get("always") is not None:
        if decision["always"] not in ("session", "workspace"):
            raise Invalid(f"{where}: always must be session or workspace.")
        if call.get("unchecked"):
            raise Invalid(f"{where}: the agent's own graph asks, and it asks each time.")
        checked["always"] = decision["always"]
    return checked


def _edited(
    decision: Mapping[str, Any],
    call: Mapping[str, Any],
    where: str,
    tools: Mapping[str, ToolSpec],
) -> dict[str, Any]:
    args = decision.get("args")
    if not isinstance(args, dict):
        raise Invalid(f"{where}.args: an object is expected.")
    args = cast("dict[str, Any]", args)
    if call.get("unchecked"):
        return args
    tool = str(call["tool"])
    spec = tools.get(tool)
    if spec is None:
        raise Invalid(f"{where}: the tool {tool} is not there any more; reject the call instead.")
    try:
        spec.validate(args)
    except ToolArgumentsInvalid as wrong:
        raise Invalid(f"{where}.args: {wrong.message}", details=wrong.details) from wrong
    # The arguments as they came: the tool's own types may not be JSON.
    return args


# Questions and plans ----------------------------------------------------------------------


def _check_answers(questions: Sequence[Mapping[str, Any]], body: dict[str, Any]) -> Answer:
    _only(body, {"answers"}, "the answer")
    given = _list(body.get("answers"), "answers")
    if len(given) != len(questions):
        raise Invalid(f"answers: {len(questions)} questions were asked, {len(given)} answered.")
    answers = [
        _one_answer(question, item, f"answers[{index}]")
        for index, (question, item) in enumerate(zip(questions, given, strict=True))
    ]
    recorded = [{"type": "answer", "answer": answer} for answer in answers]
    return Answer({"answers": answers}, recorded)


def _one_answer(question: Mapping[str, Any], given: Any, where: str) -> str | list[str]:
    options = [str(option) for option in question.get("options", ())]
    match question.get("kind", "text"):
        case "single":
            return _choice(given, options, where)
        case "multiple":
            chosen = [_choice(item, options, where) for item in _list(given, where)]
            if len(set(chosen)) != len(chosen):
                raise Invalid(f"{where}: an option is chosen twice.")
            return chosen
        case _:
            return _text(given, where)


def _choice(given: Any, options: Sequence[str], where: str) -> str:
    if not isinstance(given, str) or given not in options:
        raise Invalid(f"{where}: choose from the options.", details={"options": list(options)})
    return given


def _check_plan(body: dict[str, Any]) -> Answer:
    body = _unless_blank(body, "message")
    kind = body.get("type")
    keys = {"approve": {"type"}, "edit": {"type", "plan", "message"}, "reject": {"type", "message"}}
    if not isinstance(kind, str) or kind not in keys:
        raise Invalid("type must be one of approve, edit, reject.")
    _only(body, keys[kind], "the answer")
    checked: dict[str, Any] = {"type": kind}
    if kind == "edit":
        checked["plan"] = _text(body.get("plan"), "plan", PLAN_LIMIT)
    if _given(body):
        checked["message"] = _text(body["message"], "message")
    return Answer(checked, [checked])


# Shapes -----------------------------------------------------------------------------------


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{where}: an object is expected.")
    # A field that is null was left out by a client that always writes all of them.
    return {key: item for key, item in cast("dict[str, Any]", value).items() if item is not None}


def _unless_blank(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Leave out a text that a form sent empty."""
    said = body.get(name)
    blank = isinstance(said, str) and not said.strip()
    return {key: item for key, item in body.items() if key != name or not blank}


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Invalid(f"{where}: a list is expected.")
    items = cast("list[Any]", value)
    if len(items) > MOST:
        raise Invalid(f"{where}: too many entries.")
    return items


def _text(value: Any, where: str, limit: int = TEXT_LIMIT) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Invalid(f"{where}: a text is expected.")
    if len(value) > limit:
        raise Invalid(f"{where}: at most {limit} characters.")
    return value


def _given(body: Mapping[str, Any]) -> bool:
    """Tell whether a reason is given: a blank one says nothing and is none."""
    message = body.get("message")
    return bool(message.strip()) if isinstance(message, str) else message is not None


def _only(body: Mapping[str, Any], known: set[str], where: str) -> None:
    extra = sorted(str(key)[:40] for key in body if key not in known)
    if extra:
        raise Invalid(f"{where}: not expected here: {', '.join(extra[:10])}.")
