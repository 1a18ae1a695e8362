"""What the graph keeps between steps, and how nodes read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel

from nodes.messages import reduce_messages


def _last(_: Any, new: Any) -> Any:
    """Let the later of two writes of one step stand."""
    return new


class ChatState(TypedDict, total=False):
    """Channels of the agent graph.

    None is a plain text or number: the saver would leave those in clear JSON (EXEC-40).
    """

    messages: Annotated[list[AnyMessage], DeltaChannel(reduce_messages)]
    todos: Annotated[list[dict[str, Any]], _last]
    """The plan; two `update_plan` calls of one turn may both write it."""
    summary: dict[str, Any]
    """`text`, `path`, `goal`, `request`, `plan`: what stands for removed messages;
    `shortened_upto`: last message whose tool results are shortened; `usage_after`: last message
    whose token count no longer tells the size of the request."""
    loop: dict[str, Any]
    """Counters and guards of the present run."""
    decisions: dict[str, Any]
    """How the calls of the last turn were sorted, and what people decided, by call id."""


State = Mapping[str, Any]
"""How nodes see the state: any channel may be missing."""


def messages_of(state: State) -> list[AnyMessage]:
    """Return the stored conversation."""
    return state.get("messages") or []


def loop_of(state: State) -> dict[str, Any]:
    """Return a copy of the run's counters that may be changed and written back."""
    return fresh_loop() | dict(state.get("loop") or {})


def summary_of(state: State) -> dict[str, Any]:
    """Return what stands for removed messages; empty where nothing was removed."""
    return dict(state.get("summary") or {})


def fresh_loop(began: str = "") -> dict[str, Any]:
    """Return the counters of a run that begins.

    Args:
        began: id of the message it begins with. A summary may take the message itself away.

    `within` says of a sub-run which call it carries out; it stays as it is.
    """
    return {
        "began": began,
        "steps": 0,
        "model_calls": 0,
        "tokens": 0,
        "truncated": 0,
        "cut": False,
        "untold": "",
        "jump": "",
        "empty": 0,
        "stall": 0,
        "seen": {},
        "results": [],
        "reviews": 0,
        "review": None,
        "plan_approved": False,
        "overflow": "",
        "summary_failed": False,
        "context_tokens": 0,
        "delegations": 0,
        "within": None,
    }


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    """Return a turn's calls in order; those that could not be read carry `invalid`."""
    whole = [
        {"id": call["id"] or "", "name": call["name"], "args": call["args"]}
        for call in message.tool_calls
    ]
    broken = [
        {
            "id": call["id"] or "",
            "name": call["name"] or "",
            "args": {},
            "invalid": call["error"] or "The arguments are not a JSON object.",
            "raw": (call["args"] or "")[:500],
        }
        for call in message.invalid_tool_calls
    ]
    return whole + broken


def last_turn(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """Return the last assistant turn."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            return message
    return None


def open_calls(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """Return the calls of the last assistant turn that have no result yet, in call order."""
    done: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            done.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in calls_of(message) if call["id"] not in done]
    return []
