"""Messages as strict servers take them (cases L15, L23), each one's form kept between turns."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from core.text import clean, clean_value, shorten

Encoded = dict[str, Any]

NAME_LIMIT: Final = 64
_RAW_LIMIT: Final = 2_000
_BAD_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_ROLES: Final = {"human": "user", "system": "system", "tool": "tool", "ai": "assistant"}
_OPENING: Final = "(This conversation goes on from an earlier point.)"


class HistoryEncoder:
    """Encodes message lists. A message object is encoded once, however often it is sent.

    Messages are taken to be immutable: whoever wants another text makes another message.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[BaseMessage], Encoded | None]] = {}

    def encode(self, messages: Sequence[BaseMessage]) -> list[Encoded]:
        """Return the messages for the wire.

        System texts become one message at the front, user messages in a row become one, and a
        conversation begins with the user.
        """
        parts = [part for message in messages if (part := self._one(message)) is not None]
        systems = [part["content"] for part in parts if part["role"] == "system"]
        spoken = _merged(part for part in parts if part["role"] != "system")
        if spoken and spoken[0]["role"] != "user":
            spoken.insert(0, {"role": "user", "content": _OPENING})
        system = "\n\n".join(text for text in systems if text)
        return [{"role": "system", "content": system}, *spoken] if system else spoken

    def _one(self, message: BaseMessage) -> Encoded | None:
        key = id(message)
        known = self._known.get(key)
        if known is not None and known[0]() is message:
            return known[1]
        encoded = _encoded(message)
        self._known[key] = (weakref.ref(message, lambda _: self._known.pop(key, None)), encoded)
        return encoded


def call_ids(encoded: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the ids of all calls in an encoded history."""
    return frozenset(call["id"] for one in encoded for call in one.get("tool_calls") or ())


def tool_name(name: str | None) -> str:
    """Return the name as providers take it: models also call tools that do not exist."""
    return _BAD_NAME.sub("_", name or "")[:NAME_LIMIT] or "unknown"


def flat(content: Any) -> str:
    """Return the text of a content; what is no text is replaced by a note."""
    if isinstance(content, str):
        return clean(content)
    blocks = [_block(block) for block in cast("list[Any]", content or [])]
    return clean("\n".join(block for block in blocks if block))


def _encoded(message: BaseMessage) -> Encoded | None:
    if isinstance(message, ToolMessage):
        content = flat(message.content)
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    if isinstance(message, AIMessage):
        return _assistant(message)
    role = _ROLES.get(getattr(message, "role", message.type), "user")
    return {"role": role, "content": flat(message.content)}


def _assistant(message: AIMessage) -> Encoded | None:
    """Encode an assistant's turn; None for one that says nothing at all, which servers refuse."""
    content = flat(message.content)
    calls = [_call(one["id"], one["name"], _arguments(one["args"])) for one in message.tool_calls]
    calls += [
        _call(one["id"], one["name"], _broken(one["args"])) for one in message.invalid_tool_calls
    ]
    if calls:
        return {"role": "assistant", "content": content or None, "tool_calls": calls}
    return {"role": "assistant", "content": content} if content else None


def _call(id: str | None, name: str | None, arguments: str) -> Encoded:
    function = {"name": tool_name(name), "arguments": arguments}
    return {"id": id or "", "type": "function", "function": function}


def _arguments(arguments: dict[str, Any]) -> str:
    return json.dumps(clean_value(arguments), ensure_ascii=False, default=str)


def _broken(arguments: str | None) -> str:
    """Wrap arguments that are no JSON object into one, so that no server chokes on them."""
    return json.dumps({"_raw": shorten(clean(arguments or ""), _RAW_LIMIT)}, ensure_ascii=False)


def _merged(parts: Iterable[Encoded]) -> list[Encoded]:
    merged: list[Encoded] = []
    for part in parts:
        if merged and part["role"] == merged[-1]["role"] == "user":
            text = f"{merged[-1]['content']}\n\n{part['content']}"
            # A new object: the cached form of either message stays as it is.
            merged[-1] = {"role": "user", "content": text}
        else:
            merged.append(part)
    return merged


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return ""
    kind = str(block.get("type", ""))
    if isinstance(block.get("text"), str):
        return block["text"]
    if kind in ("thinking", "reasoning", "tool_use", "tool_call"):
        return ""
    return f"[{kind.removesuffix('_url') or 'content'} left out: this model is only given text]"
