"""What a strict provider accepts: every rule that any known server enforces, each with a message."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")

_REQUEST = frozenset(
    {
        "model", "messages", "stream", "stream_options", "tools", "tool_choice", "stop", "seed",
        "parallel_tool_calls", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n",
        "user", "response_format", "frequency_penalty", "presence_penalty",
    }
)  # fmt: skip
_MESSAGE = {
    "system": frozenset({"role", "content"}),
    "user": frozenset({"role", "content"}),
    "assistant": frozenset({"role", "content", "tool_calls"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}


@dataclass
class Rules:
    """Which rules are on. All are, unless a test turns one off."""

    on: bool = True
    two_users: bool = True
    """Two user messages in a row are refused."""
    stream_options: bool = True
    """The request may carry `stream_options`."""
    reasoning: Literal["forbid", "allow", "require"] = "forbid"
    """Whether assistant messages with calls carry `reasoning_content`."""


def fault_of(body: Any, rules: Rules) -> str | None:
    """Return what is wrong with the request, or None."""
    if not rules.on:
        return None
    if not isinstance(body, dict):
        return "the body is not a JSON object"
    return next(_faults(body, rules), None)


def _faults(body: Mapping[str, Any], rules: Rules) -> Iterator[str]:
    for key in body.keys() - _REQUEST:
        yield f"unknown field {key!r}"
    if not rules.stream_options and "stream_options" in body:
        yield "Unrecognized request argument supplied: stream_options"
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model must be a non-empty string"
    if _SURROGATE.search(json.dumps(body, ensure_ascii=False)):
        yield "the body holds a lone surrogate"
    yield from _tool_faults(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages must be a non-empty list"
        return
    for number, message in enumerate(messages):
        for fault in _message_faults(message, number, rules):
            yield f"messages[{number}]: {fault}"
    yield from _order_faults(messages, rules)
    yield from _pairing_faults(messages)


def _tool_faults(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools")
    if "tools" not in body:
        if "tool_choice" in body or "parallel_tool_calls" in body:
            yield "tool_choice and parallel_tool_calls are only allowed with tools"
        return
    if not isinstance(tools, list) or not tools:
        yield "tools must be a non-empty list"
        return
    names: set[str] = set()
    for tool in tools:
        function = tool.get("function", {}) if isinstance(tool, dict) else {}
        name = function.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            yield f"tool name {name!r} does not match ^[A-Za-z0-9_-]{{1,64}}$"
        elif name in names:
            yield f"tool name {name!r} is used twice"
        names.add(str(name))
        if tool.get("type") != "function" or not isinstance(function.get("parameters"), dict):
            yield f"tool {name!r} is not a function with parameters"


def _message_faults(message: Any, number: int, rules: Rules) -> Iterator[str]:
    if not isinstance(message, dict):
        yield "not an object"
        return
    role = message.get("role")
    if role not in _MESSAGE:
        yield f"unknown role {role!r}"
        return
    allowed = _MESSAGE[role]
    if role == "assistant" and rules.reasoning != "forbid":
        allowed = allowed | {"reasoning_content"}
    for key in message.keys() - allowed:
        yield f"unknown field {key!r}"
    if role == "system" and number:
        yield "a system message must be the first"
    yield from _content_faults(message, role)
    if role == "assistant":
        yield from _call_faults(message, rules)


def _content_faults(message: Mapping[str, Any], role: str) -> Iterator[str]:
    content = message.get("content")
    if content is None and role == "assistant" and message.get("tool_calls"):
        return
    if not isinstance(content, str):
        yield f"content must be a string, not {type(content).__name__}"


def _call_faults(message: Mapping[str, Any], rules: Rules) -> Iterator[str]:
    if "tool_calls" not in message:
        return
    asked = message["tool_calls"]
    if not isinstance(asked, list) or not asked:
        yield "tool_calls must be a non-empty list"
        return
    if rules.reasoning == "require" and not message.get("reasoning_content"):
        yield "reasoning_content is missing beside tool_calls"
    for one in asked:
        if not isinstance(one, dict) or one.keys() != {"id", "type", "function"}:
            yield "a tool call has exactly id, type and function"
            continue
        if not isinstance(one["id"], str) or not one["id"]:
            yield "a tool call has no id"
        function = one["function"]
        if one["type"] != "function" or function.keys() != {"name", "arguments"}:
            yield "a function has exactly name and arguments"
        elif not _NAME.fullmatch(function["name"] or ""):
            yield f"function name {function['name']!r} is not allowed"
        elif not _is_object(function["arguments"]):
            yield f"arguments are not the text of a JSON object: {function['arguments']!r:.80}"


def _is_object(text: Any) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (TypeError, ValueError):
        return False


def _order_faults(messages: list[Any], rules: Rules) -> Iterator[str]:
    if messages[-1].get("role") == "assistant":
        yield "the last message is the assistant's own"
    spoken = [message.get("role") for message in messages if message.get("role") != "system"]
    if spoken[:1] not in (["user"], []):
        yield f"the conversation begins with a message of role {spoken[0]!r}"
    if rules.two_users:
        for number, (first, second) in enumerate(itertools.pairwise(spoken)):
            if first == second == "user":
                yield f"two user messages in a row (the {number + 1}th spoken message)"


def _pairing_faults(messages: list[Any]) -> Iterator[str]:
    """Each call has exactly one result directly after its turn, and no result is alone."""
    open_ids: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if message.get("role") == "tool":
            name = message.get("tool_call_id")
            if name not in open_ids:
                yield f"messages[{number}]: no open tool call has the id {name!r}"
            else:
                open_ids.remove(name)
            continue
        if open_ids:
            yield f"messages[{number}]: tool calls {open_ids} have no result before this message"
        open_ids = [one.get("id") for one in message.get("tool_calls") or []]
        for name in open_ids:
            if name in seen:
                yield f"messages[{number}]: the tool call id {name!r} is used twice"
            seen.add(name)
    if open_ids:
        yield f"tool calls {open_ids} have no result"
