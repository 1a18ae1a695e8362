"""Where the agent graph goes from each step."""

from __future__ import annotations

from typing import Literal

from langgraph.runtime import Runtime
from langgraph.types import Send

from core.context import RunContext
from nodes.sorting import signature
from nodes.state import State, calls_of, last_turn, loop_of, messages_of, open_calls
from nodes.summarise import needs_room


def room(state: State, runtime: Runtime[RunContext]) -> Literal["summarise", "call_model"]:
    """Return where to go on before the model is asked."""
    return "summarise" if needs_room(state, runtime.context) else "call_model"


def after_answer(state: State) -> str:
    """Return where a turn leads with an agent whose answers are reviewed."""
    return turned(state, "review")


def after_last_answer(state: State) -> str:
    """Return where a turn leads with an agent whose answers stand as they are."""
    return turned(state, "finish")


def turned(state: State, answered: str) -> str:
    """Return where a turn leads; `answered` where it has no calls."""
    loop = loop_of(state)
    if loop["overflow"]:
        return "summarise"
    if loop["empty"]:
        return "call_model"
    turn = last_turn(messages_of(state))
    return "approve" if turn is not None and calls_of(turn) else answered


def after_approve(state: State, runtime: Runtime[RunContext]) -> list[Send] | str:
    """Send each call that goes on to a task of its own."""
    decisions = state.get("decisions") or {}
    messages = messages_of(state)
    turn = last_turn(messages)
    if turn is None or not decisions.get("send"):
        return room(state, runtime)
    loop = loop_of(state)
    sends: list[Send] = []
    for call in open_calls(messages):
        if call["id"] not in decisions["send"]:
            continue
        refused = decisions["refused"].get(call["id"])
        decision = {"type": "refused", **refused} if refused else None
        payload = {
            "call": call,
            "decision": decision or decisions["answers"].get(call["id"]),
            "turn": turn.id,
            "loop": {"plan_approved": loop["plan_approved"]},
            "before": loop["seen"].get(signature(call["name"], call["args"])),
        }
        sends.append(Send("run_tool", payload))
    return sends


def after_observe(state: State, runtime: Runtime[RunContext]) -> str:
    """Go back to the calls that still wait for a decision, otherwise to the model."""
    return "approve" if open_calls(messages_of(state)) else room(state, runtime)


def after_review(state: State, runtime: Runtime[RunContext]) -> str:
    """Return to the work, ask, or end, as the review says."""
    loop = loop_of(state)
    if loop["review"]:
        return "approve"
    if messages_of(state)[-1].type == "human":
        return room(state, runtime)
    return "finish"
