"""Builds the cards on which a run waits, and reads the answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.context import RunContext
from core.events import ApprovalCall, AskUser, PlanApproval, Question, ToolApproval
from core.types import InterruptKind

_WHY = {
    "write": "It changes files or settings.",
    "external": "It acts outside this server.",
    "none": "This tool is set to ask first.",
}

Call = Mapping[str, Any]


def approval_card(calls: Sequence[Call], ctx: RunContext) -> dict[str, Any]:
    """Return the interrupt value that asks about these calls, in call order."""
    names = labels_of([call["name"] for call in calls], ctx)
    return decisions_card([_approval(call, ctx) for call in calls], names)


def decisions_card(calls: Sequence[ApprovalCall], names: Sequence[str] = ()) -> dict[str, Any]:
    """Return the interrupt value that asks about these calls.

    Args:
        calls: what is asked about.
        names: their tools as people know them; the tools' own where missing.
    """
    card = ToolApproval(calls=list(calls))
    if len(calls) == 1:
        # Clients of the old single form read these.
        one = calls[0]
        card = ToolApproval(
            calls=list(calls),
            tool=one.tool,
            args=one.args,
            reason=one.reason,
            side_effect=one.side_effect,
        )
    message = f"Approval needed: {', '.join(names or [call.tool for call in calls])}"
    ids = [{"id": call.tool_call_id} for call in calls]
    return _value(InterruptKind.TOOL_APPROVAL, message, card, ids)


def _approval(call: Call, ctx: RunContext) -> ApprovalCall:
    """Return one call's part of the card.

    A tool may be gone since the run began to wait. Its call stays on the card, because the
    answers of a node are told apart by their order.
    """
    spec = ctx.tools.get(call["name"])
    return ApprovalCall(
        tool_call_id=call["id"],
        tool=call["name"],
        args=call["args"],
        reason=_WHY[spec.side_effect] if spec else "This tool is not there any more.",
        side_effect=spec.side_effect if spec else "external",
        allowed_decisions=list(spec.allowed_decisions) if spec else ["reject", "respond"],
    )


def labels_of(names: Sequence[str], ctx: RunContext) -> list[str]:
    """Return the names of tools as people know them."""
    return [ctx.tools[name].label if name in ctx.tools else name for name in names]


def question_card(calls: Sequence[Call]) -> dict[str, Any]:
    """Return the interrupt value that asks all questions of these calls together."""
    questions = [
        Question.model_validate(question)
        for call in calls
        for question in call["args"]["questions"]
    ]
    first = questions[0].question
    return _value(InterruptKind.ASK_USER, first, AskUser(questions=questions), calls)


def plan_card(call: Call) -> dict[str, Any]:
    """Return the interrupt value that asks about a plan."""
    card = PlanApproval(plan=call["args"]["plan"])
    return _value(InterruptKind.PLAN_APPROVAL, "A plan waits for approval", card, [call])


def note_card(note: str) -> dict[str, Any]:
    """Return the interrupt value that asks one question for no call in particular."""
    card = AskUser(questions=[Question(question=note)])
    return _value(InterruptKind.ASK_USER, note, card, [])


def asked_by(card: dict[str, Any], ctx: RunContext) -> dict[str, Any]:
    """Say on a card that a sub-run asks; the run's own cards stay as they are."""
    return card | {"agent_id": ctx.agent_id} if ctx.agent_id else card


def _value(kind: InterruptKind, message: str, card: Any, calls: Sequence[Call]) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "message": message,
        kind.value: card.model_dump(mode="json"),
        "call_ids": [call["id"] for call in calls],
    }


def read_decisions(value: Any, calls: Sequence[Call]) -> dict[str, dict[str, Any]]:
    """Return each call's own decision, matched by id; a call without one is not run."""
    given = {
        decision["tool_call_id"]: decision
        for decision in (value or {}).get("decisions", ())
        if isinstance(decision, Mapping) and decision.get("tool_call_id")
    }
    missing = {"type": "reject", "message": "No decision was given for this call."}
    return {call["id"]: dict(given.get(call["id"], missing)) for call in calls}


def read_answers(value: Any, calls: Sequence[Call]) -> dict[str, dict[str, Any]]:
    """Return each question call's own answers, in the order of its questions."""
    answers = list((value or {}).get("answers", ()))
    split: dict[str, dict[str, Any]] = {}
    for call in calls:
        asked = call["args"]["questions"]
        own, answers = answers[: len(asked)], answers[len(asked) :]
        own += [None] * (len(asked) - len(own))
        pairs = [
            {"question": question["question"], "answer": answer}
            for question, answer in zip(asked, own, strict=True)
        ]
        split[call["id"]] = {"type": "answer", "answers": pairs}
    return split


def read_plan(value: Any, call: Call) -> dict[str, Any]:
    """Return the decision about a plan, with the plan that counts."""
    given = dict(value or {})
    kind = given.get("type")
    if kind not in ("approve", "edit"):
        return {"type": "plan_reject", "message": given.get("message") or ""}
    changed = given.get("plan") if kind == "edit" else None
    return {
        "type": "plan_approve",
        "plan": changed or call["args"]["plan"],
        "edited": bool(changed),
        "message": given.get("message") or "",
    }
