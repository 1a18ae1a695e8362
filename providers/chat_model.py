"""Any LangChain chat model as one of our models: streaming, whole turns, named errors.

Its own retries should be switched off: those that are made here end with the first shown token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata, add_usage

from core import errors
from core.clock import Clock
from core.log import get_logger
from core.ports import TokenSink
from providers import chunks, usage
from providers.assembly import Assembler, Kind, StreamFailure
from providers.faults import from_object
from providers.finished import message_of
from providers.history import HistoryEncoder
from providers.raised import from_exception
from providers.retry import Retries, with_retries
from providers.windows import reserve_of, window_of

IDLE: Final = 120.0
"""Seconds without anything from the model after which its answer counts as lost."""

_LIMIT_FIELDS: Final = ("max_tokens", "max_output_tokens", "max_completion_tokens")
"""What models call the limit of an answer; one that has none of them is not limited."""

_log = get_logger(__name__)


class ChatModelHandle:
    """A chat model, ready to be asked. Implements `core.ports.ModelHandle`."""

    is_demo = False

    def __init__(
        self,
        model: BaseChatModel,
        *,
        clock: Clock,
        name: str | None = None,
        provider: str = "langchain",
        context_window: int | None = None,
        max_output: int | None = None,
    ) -> None:
        """Wrap a chat model; nothing is asked yet.

        Args:
            model: any LangChain chat model.
            clock: time, for the waits between tries.
            name: what requests call it; its own name where missing.
            provider: name of the connection, for messages.
            context_window: tokens that fit, output included; what its profile says, or what is
                known of its name, where missing.
            max_output: tokens reserved for the answer.
        """
        self.model = model
        self.name = name or _name_of(model)
        self.provider = provider
        window, known = window_of(self.name, context_window or _profiled(model))
        self.context_window = window
        self.window_known = known
        """False where the window is a cautious guess."""
        self.max_output = max_output or reserve_of(window)
        self.retries = Retries(0, 60.0)
        """None by themselves; whoever makes the handle may allow some."""
        self.idle_timeout = IDLE
        self._clock = clock
        self._encoder = HistoryEncoder()

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
        """
        request = {
            "messages": list(messages),
            "tools": list(tools),
            "max_tokens": max_tokens,
            "options": dict(options or {}),
        }
        return await with_retries(
            lambda: self._once(request, _Reader(message_id, sink)),
            self.retries,
            self._clock,
            model=self.name,
            is_watched=sink is not None,
        )

    # Helpers ----------------------------------------------------------------------------

    async def _once(self, request: dict[str, Any], reader: _Reader) -> AIMessage:
        try:
            await self._named_faults(request, reader)
        except errors.ProviderError as error:
            error.partial_text, error.partial_thinking = reader.turn.text, reader.turn.thinking
            raise
        payload: dict[str, Any] = {
            "model": self.name,
            "messages": self._encoder.encode(request["messages"]),
            "tools": request["tools"],
            "max_tokens": request["max_tokens"],
        }
        message = message_of(reader.turn, reader.turn.id, payload, self.provider)
        message.id = reader.message_id
        return message

    async def _named_faults(self, request: dict[str, Any], reader: _Reader) -> None:
        """Read the answer to its end; whatever goes wrong gets its name."""
        try:
            await self._read(request, reader)
        except StreamFailure as failure:
            raise from_object(self.provider, failure.error) from failure
        except errors.RunError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._named(error) from error
        except BaseException as error:  # boundary: a model of an extension may raise anything
            raise self._named(error) from error

    async def _read(self, request: dict[str, Any], reader: _Reader) -> None:
        """Read the answer to its end, or raise."""
        model: Any = self.model
        options: dict[str, Any] = dict(request["options"])
        if request["tools"]:
            chosen = {"tool_choice": options.pop("tool_choice")} if "tool_choice" in options else {}
            model = model.bind_tools(request["tools"], **chosen)
        stream = cast(
            "AsyncGenerator[AIMessage]",
            model.astream(request["messages"], **self._limited(request["max_tokens"]), **options),
        )
        async with aclosing(stream):
            while (piece := await self._next(stream)) is not None:
                reader.take(piece)
        reader.close()

    async def _next(self, stream: AsyncGenerator[AIMessage]) -> AIMessage | None:
        patience = asyncio.timeout(self.idle_timeout)
        try:
            async with patience:
                return await anext(stream, None)
        except TimeoutError:
            if not patience.expired():
                raise
            said = f"{self.provider} sent nothing for {self.idle_timeout:g} s"
            raise errors.ProviderTimeout(said) from None

    def _limited(self, max_tokens: int | None) -> dict[str, Any]:
        if not max_tokens:
            return {}
        known = type(self.model).model_fields
        return next(({one: max_tokens} for one in _LIMIT_FIELDS if one in known), {})

    def _named(self, error: BaseException) -> errors.ProviderError:
        if isinstance(error, NotImplementedError):
            said = f"{self.provider}: {type(self.model).__name__} cannot do what was asked of it"
            found = errors.ProviderRefused(f"{said}; agents need a model that takes tools")
            found.details["provider"] = self.provider
            return found
        found = from_exception(self.provider, error, self._clock.now())
        if type(found) is errors.ProviderError:
            _log.error("chat model failed unexpectedly", exc_info=error)
        return found


class _Reader:
    """Takes the pieces of one answer. Keeps what arrived, so that a failure can carry it."""

    def __init__(self, message_id: str, sink: TokenSink | None) -> None:
        self.message_id = message_id
        self._sink = sink
        self._assembler = Assembler()
        self._usage: UsageMetadata | None = None
        self.turn = self._assembler.turn

    def take(self, piece: AIMessage) -> None:
        """Take one piece; its text is shown."""
        if piece.usage_metadata:
            self._usage = add_usage(self._usage, piece.usage_metadata)
        self._show(self._assembler.feed(chunks.frame_of(piece)))

    def close(self) -> None:
        """Take the end: the library raises where an answer is cut, so that this is a whole one."""
        self._show(self._assembler.close())
        turn = self.turn
        turn.finish = turn.finish or ("tool_calls" if turn.joiner.calls else "stop")
        turn.counts = usage.read(chunks.usage_of(cast("dict[str, Any] | None", self._usage)))

    def _show(self, pieces: list[tuple[Kind, str]]) -> None:
        if self._sink is None:
            return
        for kind, text in pieces:
            if kind == "text":
                self._sink.token(self.message_id, text)
            else:
                self._sink.thinking(self.message_id, text)


def _name_of(model: BaseChatModel) -> str:
    for key in ("model_name", "model", "model_id"):
        name = getattr(model, key, None)
        if isinstance(name, str) and name:
            return name
    return type(model).__name__


def _profiled(model: BaseChatModel) -> int:
    """Return the window that the model's own profile tells; 0 where it tells none."""
    profile = cast("dict[str, Any]", model.profile or {})
    known = profile.get("max_input_tokens")
    return known if isinstance(known, int) and known > 0 else 0
