"""Pauses the run where a person has to decide, before any call of the batch runs (EXEC-20)."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.runtime import Runtime
from langgraph.types import interrupt

from core.context import RunContext
from core.errors import StepLimit
from core.events import Executing
from core.ids import derived_id
from nodes import cards
from nodes.hooking import recheck_edited
from nodes.state import State, last_turn, loop_of, messages_of, open_calls

_RUNS = ("approve", "edit")


async def approve(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Ask about approvals, then questions, then a plan; say which calls go on.

    After each answer LangGraph runs this from its beginning, so everything before the last
    question depends on the state alone.

    Raises:
        StepLimit: the calls could not run any more, so nobody is asked about them.
    """
    ctx = runtime.context
    loop = loop_of(state)
    if loop["review"]:
        return _unblocked(state, runtime)
    if loop["steps"] >= ctx.limits.steps:
        raise StepLimit(details={"steps": ctx.limits.steps})
    decisions = dict(state.get("decisions") or {})
    pending = open_calls(messages_of(state))
    if not pending:
        return {"decisions": {}}  # a middleware gave all results itself
    free = _free(pending, decisions)
    if ctx.agent.free_calls_first and not decisions["freed"] and 0 < len(free) < len(pending):
        _announce(free, decisions["refused"], ctx)
        return {"decisions": decisions | {"freed": True, "send": [call["id"] for call in free]}}
    answers = _ask(pending, decisions, ctx)
    refused = decisions["refused"] | await recheck_edited(pending, answers, ctx)
    decisions |= {"refused": refused}
    running = [
        call for call in pending if answers.get(call["id"], {"type": "approve"})["type"] in _RUNS
    ]
    _announce(running, decisions["refused"], ctx)
    sent = [call["id"] for call in pending]
    update: dict[str, Any] = {"decisions": decisions | {"answers": answers, "send": sent}}
    edited = _edited_turn(state, answers)
    if edited is not None:
        update["messages"] = [edited]
    plans = [answer for answer in answers.values() if answer["type"] == "plan_approve"]
    if plans:
        update["loop"] = loop | {"plan_approved": True, "plan": plans[0]["plan"]}
    return update


def _free(pending: list[dict[str, Any]], decisions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls nobody has to be asked about."""
    asked = {*decisions["approval"], *decisions["question"], *decisions["plan"]}
    return [call for call in pending if call["id"] not in asked]


def _ask(
    pending: list[dict[str, Any]], decisions: dict[str, Any], ctx: RunContext
) -> dict[str, dict[str, Any]]:
    """Interrupt at most three times and return the answers by call id."""
    answers: dict[str, dict[str, Any]] = {}
    approval, question, plan = (
        [call for call in pending if call["id"] in decisions[kind]]
        for kind in ("approval", "question", "plan")
    )
    if approval:
        value = interrupt(cards.asked_by(cards.approval_card(approval, ctx), ctx))
        answers |= cards.read_decisions(value, approval)
    if question:
        value = interrupt(cards.asked_by(cards.question_card(question), ctx))
        answers |= cards.read_answers(value, question)
    if plan:
        value = interrupt(cards.asked_by(cards.plan_card(plan[0]), ctx))
        answers[plan[0]["id"]] = cards.read_plan(value, plan[0])
    return answers


def _announce(calls: list[dict[str, Any]], refused: dict[str, Any], ctx: RunContext) -> None:
    names = [call["name"] for call in calls if call["id"] not in refused]
    if names:
        labels = cards.labels_of(names, ctx)
        ctx.emit(
            Executing(
                message=f"Running {', '.join(names)}",
                cn_agent=ctx.agent.label,
                tools=names,
                cn_tools=labels,
            )
        )


def _edited_turn(state: State, answers: dict[str, dict[str, Any]]) -> AIMessage | None:
    """Return the turn with the arguments that people put in, so that history says what ran."""
    turn = last_turn(messages_of(state))
    new = {
        call_id: answer["args"]
        for call_id, answer in answers.items()
        if answer["type"] == "edit" and "args" in answer
    }
    if turn is None or not new:
        return None
    calls = [
        call | {"args": new[call["id"]]} if call["id"] in new else call for call in turn.tool_calls
    ]
    return turn.model_copy(update={"tool_calls": calls})


def _unblocked(state: State, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Ask what completion review could not settle; the answer becomes a user message."""
    loop = loop_of(state)
    ctx = runtime.context
    value = interrupt(cards.asked_by(cards.note_card(loop["review"]["note"]), ctx))
    given = (value or {}).get("answers") or [""]
    answer = ", ".join(given[0]) if isinstance(given[0], list) else str(given[0] or "")
    info = runtime.execution_info
    message = HumanMessage(
        answer.strip() or "(no answer)",
        id=derived_id(ctx.run_id, info.task_id if info else "", "answer"),
    )
    return {"messages": [message], "loop": loop | {"review": None}, "decisions": {}}
