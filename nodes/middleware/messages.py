"""Messages that middleware write, made fit for the history: ids, clean text, one pairing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
)

from core.ids import derived_id
from core.text import clean, clean_value
from nodes.messages import REMOVE_ALL
from nodes.review import INTERNAL

_KEPT: Mapping[str, tuple[str, ...]] = {
    "ai": ("usage_metadata", "response_metadata", "invalid_tool_calls"),
    "tool": ("additional_kwargs",),
}
"""What a copy with the same id gets from the message it replaces where it has nothing itself."""


def written(given: Any, known: Sequence[AnyMessage], *seed: str) -> list[Any]:
    """Return what a middleware wrote under `messages` as messages for the history.

    Args:
        given: one message or several, in any form that LangChain takes.
        known: the stored conversation.
        seed: what the ids of new messages are derived from, so that a repeat after a crash
            replaces instead of doubling.

    Raises:
        ValueError, NotImplementedError: it is no message.
    """
    listed = cast("list[Any]", given if isinstance(given, list | tuple) else [given])
    before = {str(message.id): message for message in known}
    fit: list[BaseMessage] = []
    for number, message in enumerate(convert_to_messages(listed)):
        if isinstance(message, RemoveMessage):
            if message.id == REMOVE_ALL or message.id in before:
                fit.append(message)
            continue
        old = before.get(str(message.id))
        if message is not old:
            fit.append(_fit(message, old, derived_id(*seed, str(number))))
        elif any(one.id == REMOVE_ALL for one in fit):
            fit.append(message)
    return fit


def _fit(message: BaseMessage, old: AnyMessage | None, new_id: str) -> AnyMessage:
    """Return a message with an id, text that can be stored, and what it replaces."""
    content = message.content
    update: dict[str, Any] = {
        "id": message.id if old is not None else new_id,
        "content": clean(content) if isinstance(content, str) else clean_value(list(content)),
    }
    if old is not None and old.type == message.type:
        for name in _KEPT.get(message.type, ()):
            if not getattr(message, name) and getattr(old, name):
                update[name] = getattr(old, name)
    elif isinstance(message, HumanMessage):
        # Nobody asked this: it is no request that a summary has to keep word for word.
        update["additional_kwargs"] = {**message.additional_kwargs, INTERNAL: True}
    if isinstance(message, AIMessage):
        update["tool_calls"] = named_calls(message, update["id"])
    return cast("AnyMessage", message.model_copy(update=update))


def named_calls(message: AIMessage, seed: str) -> list[Any]:
    """Return a turn's calls, each with an id that no other one of the turn has."""
    taken: set[str] = set()
    calls: list[Any] = []
    for number, call in enumerate(message.tool_calls):
        call_id = call["id"] or ""
        if not call_id or call_id in taken:
            call_id = f"call_{derived_id(seed, 'call', str(number))}"
        taken.add(call_id)
        calls.append({**call, "id": call_id, "args": clean_value(call["args"])})
    return calls


def new_turns(messages: Iterable[BaseMessage], known: Sequence[AnyMessage]) -> list[AIMessage]:
    """Return the assistant's messages that the conversation did not have before."""
    ids = {message.id for message in known}
    return [one for one in messages if isinstance(one, AIMessage) and one.id not in ids]


def since(
    messages: Sequence[AnyMessage], turn_id: str, before: str
) -> list[AIMessage | ToolMessage]:
    """Return a turn and everything of assistant and tools behind it.

    Args:
        messages: the conversation.
        turn_id: the turn as the model gave it.
        before: the message that stood before it. Where a middleware took the turn back, what
            stands behind this one stands in its place; where that is gone too, what ends the
            conversation.
    """
    places = {str(message.id): index for index, message in enumerate(messages)}
    start = places.get(turn_id, places[before] + 1 if before in places else -1)
    if start < 0:
        start = len(messages)
        while start and isinstance(messages[start - 1], AIMessage | ToolMessage):
            start -= 1
    return [one for one in messages[start:] if isinstance(one, AIMessage | ToolMessage)]
