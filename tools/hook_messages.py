"""Messages as hooks see them, and back again with the texts that hooks changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from core.hook_values import frozen
from core.hooks import HookCall, HookMessage, Role
from core.tokens import PER_MESSAGE, estimate_text

_ROLES: Final[dict[str, Role]] = {"system": "system", "ai": "assistant", "tool": "tool"}

M = TypeVar("M", bound=BaseMessage)


def shown(messages: Sequence[BaseMessage]) -> tuple[HookMessage, ...]:
    """Return messages as hooks see them."""
    return tuple(_shown(message) for message in messages)


def calls_of(message: AIMessage) -> tuple[HookCall, ...]:
    """Return the calls of a turn as hooks see them."""
    return tuple(
        HookCall(id=call["id"] or "", tool=call["name"], args=frozen(call["args"]))
        for call in message.tool_calls
    )


def rewritten(
    messages: Sequence[BaseMessage], old: Sequence[HookMessage], new: Sequence[HookMessage]
) -> list[BaseMessage]:
    """Return the messages with changed texts; the same objects where nothing changed."""
    return [
        message if before.text == after.text else with_text(message, after.text)
        for message, before, after in zip(messages, old, new, strict=True)
    ]


def with_text(message: M, text: str) -> M:
    """Return the message with another text; images and the like in it stay."""
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": text})
    others = [block for block in content if not _is_text(block)]
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *others]})


def size_of(messages: Sequence[HookMessage]) -> int:
    """Return about how many tokens the texts of messages take."""
    return sum(PER_MESSAGE + estimate_text(message.text) for message in messages)


def _shown(message: BaseMessage) -> HookMessage:
    return HookMessage(
        role=_ROLES.get(message.type, "user"),
        text=str(message.text),
        calls=calls_of(message) if isinstance(message, AIMessage) else (),
        tool_call_id=message.tool_call_id if isinstance(message, ToolMessage) else None,
    )


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")
