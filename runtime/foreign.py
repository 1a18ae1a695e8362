"""What a graph of an extension says while it runs, put into the terms of a run (EXEC-04).

How such a graph is run is decided in `docs/adr/0019-foreign-graphs.md`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from core.errors import ModelCallLimit, TokenBudget
from core.ids import derived_id
from core.tokens import estimate_text, provider_counts
from runtime import parts

if TYPE_CHECKING:
    from core.context import RunContext
    from runtime.ledger import Ledger
    from runtime.recall import Recalled

UNUSED = "This text is no part of the answer."

CHANGED = "The text was changed after it was shown."


class ForeignStream:
    """Tokens, turns and usage of one foreign graph within one drive."""

    def __init__(self, ctx: RunContext, ledger: Ledger, recalled: Recalled) -> None:
        self._ctx = ctx
        self._ledger = ledger
        self._recalled = recalled
        self._shown: dict[str, list[str]] = {}
        """Text of messages that no turn is known to keep."""
        self._spent: dict[str, UsageMetadata | None] = {}
        """Model calls whose answer is no turn yet, with what their pieces told of usage."""
        self._kept: set[str] = set()
        self._calls = len(recalled.stored)

    def token(self, message: Any) -> None:
        """Show a piece of a model's answer; whole messages that no model streamed too.

        Raises:
            ModelCallLimit, TokenBudget: a model was asked beyond what the run may use.
        """
        if not isinstance(message, AIMessage):
            return
        message_id = derived_id(self._ctx.run_id, str(message.id))
        if isinstance(message, AIMessageChunk) or message.usage_metadata:
            if message_id not in self._spent:
                self._check_budgets()
                self._spent[message_id] = None
            if message.usage_metadata:
                self._spent[message_id] = add_usage(self._spent[message_id], message.usage_metadata)
        if message.text:
            self._shown.setdefault(message_id, []).append(message.text)
            self._ctx.sink.token(message_id, message.text)

    def step(self, update: Mapping[str, Any]) -> list[AnyMessage]:
        """Return the turns and results that a step of the graph added, as messages of the run.

        A form that only the graph's own reducer can read waits for the graph's end.
        """
        from graphs.foreign import added_by, messages_written

        written = [one for change in update.values() for one in messages_written(change)]
        return list(added_by(self._ctx.run_id, written, self._ctx.drive.given))

    def turn(self, turn: AIMessage) -> bool:
        """Count a turn, show its text as it is kept, and tell its calls.

        The graph carries its calls out itself, so they are told as they come.

        Returns:
            Whether this drive had not dealt with it before.
        """
        message_id = str(turn.id)
        if message_id in self._kept:
            return False
        self._kept.add(message_id)
        if message_id not in self._recalled.stored:
            self._rename(message_id, turn.text)
            self._count_turn(message_id, turn)
            if "".join(self._shown.pop(message_id, ())) != turn.text:
                self._ctx.sink.reset(message_id, CHANGED)
                self._ctx.sink.token(message_id, turn.text)
        self._tell_calls(turn)
        return True

    def take_back(self) -> None:
        """Take back what was shown and became no turn: work that a graph does for itself."""
        for message_id in self._shown:
            self._ctx.sink.reset(message_id, UNUSED)

    @contextmanager
    def counting(self) -> Generator[None]:
        """Count the model calls whose answer became no turn, however the graph comes to rest."""
        try:
            yield
        finally:
            for message_id, usage in self._spent.items():
                self._add("graph", usage, "", "".join(self._shown.get(message_id, ())))
            self._spent.clear()

    # Helpers ----------------------------------------------------------------------------

    def _check_budgets(self) -> None:
        """Raise the named end of a run whose budget is used up (EXEC-09)."""
        limits, total = self._ctx.limits, self._ledger.total()
        if limits.tokens and total.input_tokens + total.output_tokens >= limits.tokens:
            raise TokenBudget(details={"tokens": limits.tokens})
        if self._calls + len(self._spent) >= limits.model_calls:
            raise ModelCallLimit(details={"model_calls": limits.model_calls})

    def _rename(self, message_id: str, text: str) -> None:
        """Find an answer that its model named only at its end: it was shown under another id."""
        if message_id in self._shown:
            return
        twin = next((one for one, shown in self._shown.items() if "".join(shown) == text), None)
        if twin is not None:
            del self._shown[twin]
            self._spent[message_id] = self._spent.pop(twin, None)
            self._ctx.sink.reset(twin, CHANGED)

    def _count_turn(self, message_id: str, turn: AIMessage) -> None:
        """Count the model call that a turn came from; what no model said is not counted."""
        metadata = turn.response_metadata
        if message_id in self._spent or turn.usage_metadata or metadata:
            self._calls += 1
            told = self._spent.pop(message_id, None)
            model = str(metadata.get("model_name") or "")
            self._add("turn", turn.usage_metadata or told, model, turn.text)

    def _add(self, purpose: str, usage: UsageMetadata | None, model: str, text: str) -> None:
        """Record one model call; where the provider told nothing, its output is estimated."""
        counts = provider_counts(usage) if usage else {"output_tokens": estimate_text(text)}
        source = "provider" if usage else "estimate"
        self._ledger.add(purpose, {"model": model, "usage_source": source, **counts})

    def _tell_calls(self, turn: AIMessage) -> None:
        ctx, seen = self._ctx, self._recalled.called
        calls = [call for call in parts.calls_of(turn) if call["id"] not in seen]
        for event in parts.call_events(calls, ctx.agent.label, ctx.agent.name):
            ctx.emit(event)
