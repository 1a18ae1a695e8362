"""One real model, ready to be asked: the sink, the retries, the lazy import."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.ports import TokenSink
from providers.assembly import Kind
from providers.connection import Connection
from providers.retry import Retries, with_retries

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

    from providers.wire import WireChatModel


@dataclass(slots=True)
class WireHandle:
    """A model of a connection. Implements `core.ports.ModelHandle`."""

    name: str
    provider: str
    """Name of the connection, for messages."""
    connection: Connection
    retries: Retries
    context_window: int
    max_output: int
    window_known: bool = True
    """False where the window is a cautious guess."""
    is_demo: bool = False
    _model: WireChatModel | None = None
    _importing: asyncio.Lock = field(default_factory=asyncio.Lock)

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
        """Send the messages and return one whole message; see `core.ports.ModelHandle`.

        Tries again as the retry policy says, as long as nobody has seen any text.

        Raises:
            ProviderError: one of its family, with what had arrived in `partial_text`.
            Invalid: `options` has a field that is never sent.
        """
        model = await self.langchain()
        fields = dict(options or {})
        model.check_fields(fields)
        if tools:
            fields["tools"] = list(tools)
        if max_tokens:
            fields["max_tokens"] = max_tokens
        return await with_retries(
            lambda: self._once(model, messages, (message_id, sink), fields),
            self.retries,
            self.connection.clock,
            model=self.name,
            is_watched=sink is not None,
        )

    async def langchain(self) -> WireChatModel:
        """Return the LangChain model; the first time its library is imported in a thread."""
        async with self._importing:
            if self._model is None:
                wire = await asyncio.to_thread(importlib.import_module, "providers.wire")
                self._model = wire.WireChatModel(self.connection, self.name)
            assert self._model is not None
            return self._model

    async def _once(
        self,
        model: WireChatModel,
        messages: Sequence[Any],
        target: tuple[str, TokenSink | None],
        options: dict[str, Any],
    ) -> AIMessage:
        from providers.wire import Call, current_call

        message_id, sink = target
        call = Call(message_id, _shower(message_id, sink))
        token = current_call.set(call)
        try:
            return await model.ainvoke(list(messages), **options)
        finally:
            current_call.reset(token)


def _shower(message_id: str, sink: TokenSink | None) -> Any:
    """Return what passes pieces of text on to the sink."""
    if sink is None:
        return None

    def show(kind: Kind, text: str) -> None:
        if kind == "text":
            sink.token(message_id, text)
        else:
            sink.thinking(message_id, text)

    return show
