"""Puts what an extension's own graph asks on the cards of a run, and reads the answers back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from langgraph.types import Interrupt
from pydantic import TypeAdapter

from core.context import RunContext
from core.events import ApprovalCall
from core.types import DecisionType, InterruptKind
from nodes.cards import asked_by, decisions_card, note_card

NOTE_LIMIT = 4_000
"""Characters of a question that a graph stops with; longer ones are cut."""

_AS_JSON = "(Answer with JSON; anything else is passed on as text.)"

_FORM = "foreign"
"""Mark on a card: how its answer is given back to the graph."""

_DECISIONS: tuple[DecisionType, ...] = get_args(DecisionType)
_KINDS = frozenset(InterruptKind)
_REASON = "What stands around this call asks first."


def as_question(interrupt: Interrupt, ctx: RunContext) -> Interrupt:
    """Return a foreign graph's interrupt as a card to the user, under the same id.

    The form of LangChain's `HumanInTheLoopMiddleware` becomes an approval, anything else a
    question.
    """
    value = interrupt.value
    card = _batch(value) or _single(interrupt)
    if card is None and isinstance(value, str):
        card = note_card(value[:NOTE_LIMIT] or "Go on?") | {_FORM: "text"}
    elif card is None:
        card = note_card(f"{_plain(value)[:NOTE_LIMIT]}\n\n{_AS_JSON}") | {_FORM: "json"}
    return Interrupt(value=asked_by(card, ctx), id=interrupt.id)


def carded(interrupt: Interrupt, ctx: RunContext) -> Interrupt:
    """Return a question as a card: our own as it is, that of a middleware or a tool put on one."""
    value = interrupt.value
    kind = value.get("kind") if isinstance(value, Mapping) else None
    ours = kind in _KINDS and isinstance(value.get(kind), Mapping) and "call_ids" in value
    return interrupt if ours else as_question(interrupt, ctx)


def as_resumed(card: Any, given: Any) -> Any:
    """Return what the node that asked is given back.

    Args:
        card: what was asked; our own nodes take the answer as it is.
        given: the checked answer.
    """
    form = card.get(_FORM) if isinstance(card, Mapping) else None
    match form:
        case "batch":
            return {"decisions": _decisions(card, given)}
        case "single":
            return _decisions(card, given)[0]
        case "text":
            return given["answers"][0]
        case "json":
            return _read(given["answers"][0])
        case _:
            return given


# LangChain's form -----------------------------------------------------------------------


def _batch(value: Any) -> dict[str, Any] | None:
    """Return the card of a `HITLRequest`: all gated calls of a turn."""
    if not isinstance(value, Mapping):
        return None
    requests = _mappings(value.get("action_requests"))
    configs = _mappings(value.get("review_configs"))
    if not (requests and configs):
        return None
    allowed = {one.get("action_name"): one.get("allowed_decisions") for one in configs}
    calls = [
        _call(f"action-{number}", one, allowed.get(one.get("name")))
        for number, one in enumerate(requests, start=1)
    ]
    return decisions_card(calls) | {_FORM: "batch"}


def _single(interrupt: Interrupt) -> dict[str, Any] | None:
    """Return the card of a `ToolApprovalRequest`: one gated call."""
    value = interrupt.value
    if not isinstance(value, Mapping) or value.get("type") != "tool_approval":
        return None
    if not isinstance(value.get("name"), str):
        return None
    allowed = _allowed_by(interrupt.response_schema)
    return decisions_card([_call("action-1", value, allowed)]) | {_FORM: "single"}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return a list of mappings; anything else is an empty one."""
    items = value if isinstance(value, list) else []
    return items if all(isinstance(one, Mapping) for one in items) else []


def _call(call_id: str, request: Mapping[str, Any], allowed: Any) -> ApprovalCall:
    args = request.get("args")
    some = allowed if isinstance(allowed, Sequence) else ()
    known: list[DecisionType] = [one for one in _DECISIONS if one in some]
    return ApprovalCall(
        tool_call_id=call_id,
        tool=str(request.get("name") or ""),
        args=dict(args) if isinstance(args, Mapping) else {},
        reason=str(request.get("description") or _REASON)[:NOTE_LIMIT],
        side_effect="external",
        allowed_decisions=known or ["approve", "reject"],
        unchecked=True,
    )


def _allowed_by(schema: Any) -> list[str]:
    """Return the decisions that the type of an answer knows."""
    try:
        shown = schema if isinstance(schema, Mapping) else TypeAdapter(schema).json_schema()
        text = json.dumps(shown)
    except Exception:  # boundary: a type of an extension's own
        return []
    return [one for one in _DECISIONS if f'"const": "{one}"' in text]


def _decisions(card: Mapping[str, Any], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the decisions in the order of the calls and in LangChain's form."""
    by_id = {one["tool_call_id"]: one for one in given["decisions"]}
    return [_decision(call, by_id[call["tool_call_id"]]) for call in card["tool_approval"]["calls"]]


def _decision(call: Mapping[str, Any], decision: Mapping[str, Any]) -> dict[str, Any]:
    kind = decision["type"]
    if kind == "edit":
        return {"type": kind, "edited_action": {"name": call["tool"], "args": decision["args"]}}
    message = {"message": decision["message"]} if decision.get("message") else {}
    return {"type": kind, **message}


def _plain(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        # Keys that JSON does not know, or a value that holds itself.
        return str(value)


def _read(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return answer
