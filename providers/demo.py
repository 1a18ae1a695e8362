"""The built-in demo model: scripted, offline, and plain about it, so that all can be tried (MODEL-09)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from core import tokens
from core.clock import Clock
from core.ports import TokenSink
from providers import demo_scenes
from providers.calls import mint
from providers.demo_scenes import Asked, Reply, Result
from providers.history import HistoryEncoder, flat
from providers.windows import UNKNOWN, reserve_of

_PIECE: Final = re.compile(r"[\u2e80-\uffef]{1,2}|[^\s\u2e80-\uffef]+\s*|\s+")
"""A word with the space after it, or two Chinese characters."""

_SKILL: Final = re.compile(r"\A<skill>\n.*?\n</skill>\n\n", re.DOTALL)
"""The skill that a user asked for stands before their words, which alone choose the scene."""

PAUSE: Final = 0.015
"""Seconds between two pieces: quick to read along, slow enough to press Stop."""


@dataclass(slots=True)
class DemoHandle:
    """A model that understands nothing and says so. Implements `core.ports.ModelHandle`."""

    clock: Clock
    context_window: int = UNKNOWN
    name: str = "demo"
    provider: str = "demo"
    is_demo: bool = True
    pause: float = PAUSE
    max_output: int = field(init=False)
    _encoder: HistoryEncoder = field(default_factory=HistoryEncoder)

    def __post_init__(self) -> None:
        self.max_output = reserve_of(self.context_window)

    async def ask(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[dict[str, Any]] = (),
        message_id: str,
        sink: TokenSink | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> AIMessage:
        """Answer by script, word by word; see `core.ports.ModelHandle`. Fails never."""
        del max_tokens, options  # scenes are short, and nothing changes them
        asked = _asked(messages, tools)
        # Only what a person waits for has a sink; the rest is the server's own housekeeping.
        reply = demo_scenes.answer(asked) if sink else demo_scenes.background(asked)
        if sink is not None:
            for piece in _PIECE.findall(reply.thinking):
                sink.thinking(message_id, piece)
                await self.clock.sleep(self.pause)
            for piece in _PIECE.findall(reply.text):
                sink.token(message_id, piece)
                await self.clock.sleep(self.pause)
        return self._message(reply, messages, tools, message_id)

    def _message(
        self,
        reply: Reply,
        messages: Sequence[BaseMessage],
        tools: Sequence[dict[str, Any]],
        message_id: str,
    ) -> AIMessage:
        thought = tokens.estimate_text(reply.thinking)
        asked = tokens.estimate_request(self._encoder.encode(messages), tools)
        said = thought + tokens.estimate_text(f"{reply.text}{list(reply.calls) or ''}")
        return AIMessage(
            content=reply.text,
            id=message_id,
            tool_calls=[
                {"name": name, "args": args, "id": mint(), "type": "tool_call"}
                for name, args in reply.calls
            ],
            additional_kwargs={"reasoning_content": reply.thinking} if reply.thinking else {},
            usage_metadata={
                "input_tokens": asked,
                "output_tokens": said,
                "total_tokens": asked + said,
                "output_token_details": {"reasoning": thought},
            },
            response_metadata={
                "finish_reason": "tool_calls" if reply.calls else "stop",
                "model": self.name,
                "provider": self.provider,
                "request_id": "",
                "usage_source": "estimate",
                "truncated": False,
            },
        )


def _asked(messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> Asked:
    """Sum up the conversation since the user's last message."""
    text, turns, system = "", 0, ""
    names: dict[str, str] = {}
    results: list[Result] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            text, turns, results = _SKILL.sub("", flat(message.content), count=1), 0, []
        elif isinstance(message, AIMessage):
            turns += 1
            names |= {str(call["id"]): call["name"] for call in message.tool_calls}
        elif isinstance(message, ToolMessage):
            name = names.get(message.tool_call_id, "")
            results.append(Result.read(name, flat(message.content)))
        elif isinstance(message, SystemMessage):
            system += flat(message.content)
    return Asked(
        text=text,
        turn=turns,
        results=tuple(results),
        tools=frozenset(tool["function"]["name"] for tool in tools),
        system=system,
    )
