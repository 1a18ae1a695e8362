"""What a graph of an extension says while it runs, put into the terms of a run (EXEC-04).

How such a graph is run is decided in `docs/adr/0019-foreign-graphs.md`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from core import events
from core.errors import ModelCallLimit, TokenBudget
from core.ids import derived_id
from core.tokens import estimate_text
from core.types import InterruptKind
from runtime import parts

if TYPE_CHECKING:
    from langgraph.types import Interrupt

    from core.context import RunContext
    from runtime.ledger import Ledger
    from runtime.recall import Recalled

Part = tuple[tuple[str, ...], str, Any]
"""Namespace (empty for our own graph), mode and content of what LangGraph streams."""

UNUSED = "This text is no part of the answer."

CHANGED = "The text was changed after it was shown."

NOTE_LIMIT = 4_000
"""Characters of a question that a graph stops with; longer ones are cut."""


class ForeignStream:
    """Tokens, turns and usage of one foreign graph within one drive."""

    def __init__(self, ctx: RunContext, ledger: Ledger, recalled: Recalled) -> None:
        self._ctx = ctx
        self._ledger = ledger
        self._recalled = recalled
        self._shown: dict[str, list[str]] = {}
        self._kept: set[str] = set()
        self._counted: set[str] = set()

    def token(self, message: Any) -> None:
        """Show a piece of a model's answer; whole messages that no model streamed too."""
        if not isinstance(message, AIMessage):
            return
        message_id = derived_id(self._ctx.run_id, str(message.id))
        if message.usage_metadata:
            self._count(message_id, message)
        if message.text:
            self._shown.setdefault(message_id, []).append(message.text)
            self._ctx.sink.token(message_id, message.text)

    def turns(self, change: Mapping[str, Any]) -> list[AnyMessage]:
        """Return the turns and results that a step of the graph added, under their own ids here.

        Calls are told as they come: the graph carries them out itself.

        Raises:
            ModelCallLimit, TokenBudget: the run has used up what it may.
        """
        from graphs.foreign import in_run

        given = change.get("messages")
        added: list[AnyMessage] = []
        for message in cast("list[Any]", given if isinstance(given, list) else [given]):
            if isinstance(message, AIMessage):
                own = in_run(self._ctx.run_id, message)
                self._turn(own)
                added.append(own)
            elif isinstance(message, ToolMessage):
                added.append(in_run(self._ctx.run_id, message))
        return added

    def late(self, update: Mapping[str, Any]) -> None:
        """Show what the graph's end brings and none of its steps did, or changed since."""
        for change in update.values():
            if isinstance(change, Mapping):
                added = cast("Mapping[str, Any]", change).get("messages")
                for message in cast("list[Any]", added or []):
                    if isinstance(message, AIMessage):
                        self._turn(message)

    def end(self) -> None:
        """Take back what was shown and became no message: work that a graph does for itself."""
        for message_id in self._shown.keys() - self._kept:
            self._ctx.sink.reset(message_id, UNUSED)

    def _turn(self, turn: AIMessage) -> None:
        """Deal with a turn once: count it, show its text as it is kept, tell its calls."""
        message_id = str(turn.id)
        if message_id in self._kept:
            return
        self._kept.add(message_id)
        if message_id not in self._recalled.stored:
            self._count(message_id, turn)
            shown = "".join(self._shown.get(message_id, ()))
            if shown != turn.text:
                self._ctx.sink.reset(message_id, CHANGED)
                self._ctx.sink.token(message_id, turn.text)
        self._tell_calls(turn)

    def _tell_calls(self, turn: AIMessage) -> None:
        agent, seen = self._ctx.agent, self._recalled.called
        calls = [call for call in parts.calls_of(turn) if call["id"] not in seen]
        if not calls:
            return
        names = [call["name"] for call in calls]
        self._ctx.emit(
            events.Executing(
                message="Running tools", cn_agent=agent.label, tools=names, cn_tools=names
            )
        )
        for call in calls:
            self._ctx.emit(
                events.ToolCall(
                    tool=call["name"],
                    cn_tool=call["name"],
                    args=call["args"],
                    agent_id=agent.name,
                    tool_call_id=call["id"],
                )
            )

    def _count(self, message_id: str, message: AIMessage) -> None:
        """Count a model call once; a provider that told nothing is estimated."""
        if message_id in self._counted:
            return
        self._counted.add(message_id)
        usage = message.usage_metadata
        details: Mapping[str, Any] = (usage or {}).get("input_token_details") or {}
        thought: Mapping[str, Any] = (usage or {}).get("output_token_details") or {}
        self._ledger.add(
            "turn",
            {
                "model": str(message.response_metadata.get("model_name") or ""),
                "input_tokens": usage["input_tokens"] if usage else 0,
                "output_tokens": usage["output_tokens"] if usage else estimate_text(message.text),
                "cached_tokens": details.get("cache_read") or 0,
                "reasoning_tokens": thought.get("reasoning") or 0,
                "usage_source": "provider" if usage else "estimate",
            },
        )
        self._check_budgets()

    def _check_budgets(self) -> None:
        limits, total = self._ctx.limits, self._ledger.total()
        if limits.tokens and total.input_tokens + total.output_tokens > limits.tokens:
            raise TokenBudget(details={"tokens": limits.tokens})
        if len(self._counted) > limits.model_calls:
            raise ModelCallLimit(details={"model_calls": limits.model_calls})


async def parts_of(stream: AsyncIterator[Any], *, foreign: bool) -> AsyncGenerator[Part]:
    """Give what LangGraph streams in one form, whatever it was asked for."""
    async for item in stream:
        yield cast("Part", item) if foreign else ((), "updates", item)


def as_question(interrupt: Interrupt) -> Interrupt:
    """Return a foreign graph's interrupt as a question to the user, under the same id."""
    from langgraph.types import Interrupt

    value = cast("object", interrupt.value)
    text = value if isinstance(value, str) else str(value)
    card = events.AskUser(questions=[events.Question(question=text[:NOTE_LIMIT] or "Go on?")])
    asked: dict[str, Any] = {
        "kind": InterruptKind.ASK_USER,
        "message": text[:NOTE_LIMIT],
        InterruptKind.ASK_USER.value: card.model_dump(),
        "call_ids": [],
    }
    return Interrupt(value=asked, id=interrupt.id)


def as_resumed(value: Mapping[str, Any]) -> Any:
    """Return what the graph's own `interrupt(…)` gives back: the answer's text."""
    return value["answers"][0]
