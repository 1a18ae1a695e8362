"""A model that an extension made itself, held to what `core.ports.ModelHandle` promises."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage

from core import errors
from core.clock import Clock
from core.log import get_logger
from core.ports import ModelHandle, TokenSink
from providers.raised import from_exception

_log = get_logger(__name__)


class GuardedHandle:
    """Turns what such a model raises or returns into our errors and messages."""

    def __init__(
        self, inner: ModelHandle, provider: str, clock: Clock, *, is_demo: bool = False
    ) -> None:
        """Wrap a model.

        Args:
            inner: the extension's model.
            provider: what brought it, for messages.
            clock: time.
            is_demo: whether the built-in demo model is inside.
        """
        self.name = inner.name
        self.provider = provider
        self.context_window = inner.context_window
        self.max_output = inner.max_output
        self.is_demo = is_demo
        self._inner = inner
        self._clock = clock

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
        """Ask the model; see `core.ports.ModelHandle`.

        Raises:
            ProviderError: the model failed, in whatever way.
            RunError: what the model itself raised of that family.
        """
        request: dict[str, Any] = {"tools": tools, "message_id": message_id, "sink": sink}
        if max_tokens is not None:
            request["max_tokens"] = max_tokens
        if options:
            request["options"] = options
        try:
            answer: object = await self._inner.ask(messages, **request)
        except errors.RunError:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise self._named(error) from error
        except BaseException as error:  # boundary: a model of an extension may raise anything
            raise self._named(error) from error
        if not isinstance(answer, AIMessage):
            kind = type(answer).__name__
            raise errors.ProviderJunk(f"{self.provider} answered with {kind}, no message.")
        return answer if answer.id == message_id else answer.model_copy(update={"id": message_id})

    def _named(self, error: BaseException) -> errors.ProviderError:
        found = from_exception(self.provider, error, self._clock.now())
        if type(found) is errors.ProviderError:
            _log.error("model failed unexpectedly", exc_info=error)
        return found


def is_handle(thing: object) -> bool:
    """Tell whether something looks like a `core.ports.ModelHandle`."""
    numbers = all(
        isinstance(getattr(thing, name, None), int) for name in ("context_window", "max_output")
    )
    named = isinstance(getattr(thing, "name", None), str)
    return numbers and named and asyncio.iscoroutinefunction(getattr(thing, "ask", None))
