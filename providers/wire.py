"""`ChatOpenAI` that builds its request by LangChain's means and reads the wire itself (EXEC-04).

`bind_tools`, callbacks and middleware work as ever; text goes to the call's sink while it comes,
and one whole message is returned. Importing this module takes a second: only `providers.handle`
does, in a thread, when a real model is asked for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr

from core import errors
from providers import exchange
from providers.assembly import Kind
from providers.connection import Connection
from providers.finished import message_of
from providers.history import HistoryEncoder

_FIELDS: Final = (
    "model", "stream", "stream_options", "temperature", "top_p", "max_tokens",
    "max_completion_tokens", "stop", "seed", "response_format", "tools", "tool_choice",
    "parallel_tool_calls",
)  # fmt: skip
"""Everything that is ever sent beside the messages, in this order; the messages come last, so
that a turn's request is a prefix of the next one's, byte for byte (EXEC-12)."""

_NO_CLIENT: Final = object()
"""Stands where the SDK's own clients would: they are never used and cost time to build."""


@dataclass(slots=True)
class Call:
    """What one call brings along beside its messages."""

    message_id: str | None = None
    show: Callable[[Kind, str], None] | None = None

    def take(self, kind: Kind, text: str) -> None:
        """Pass a piece of text on."""
        if self.show is not None:
            self.show(kind, text)


current_call: ContextVar[Call | None] = ContextVar("graphwright_model_call", default=None)
"""Travels beside LangChain's own arguments, which are traced and logged."""


class WireChatModel(ChatOpenAI):
    """A chat model on one of our connections."""

    _connection: Connection = PrivateAttr()
    _encoder: HistoryEncoder = PrivateAttr(default_factory=HistoryEncoder)

    def __init__(self, connection: Connection, name: str, **fields: Any) -> None:
        # Every field that would be read from the environment is given, and streaming by
        # LangChain is off: `_agenerate` streams to the sink.
        super().__init__(
            model=name,
            base_url=connection.base_url,
            api_key=connection.key or SecretStr("none"),
            organization=None,
            openai_proxy=None,
            client=_NO_CLIENT,
            async_client=_NO_CLIENT,
            max_retries=0,
            disable_streaming=True,
            use_responses_api=False,
            **fields,
        )
        self._connection = connection

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        messages = self._convert_input(input_).to_messages()
        wanted = super()._get_request_payload([], stop=stop, **kwargs)
        limit = wanted.pop("max_completion_tokens", None) or wanted.pop("max_tokens", None)
        if limit:
            wanted[self._connection.max_tokens_field] = limit
        wanted["stream"] = True
        if self._connection.stream_options is not False:
            wanted["stream_options"] = {"include_usage": True}
        if not wanted.get("tools"):
            wanted = {key: value for key, value in wanted.items() if "tool" not in key}
        payload = {key: wanted[key] for key in _FIELDS if wanted.get(key) is not None}
        payload["messages"] = self._encoder.encode(messages)
        return payload

    def check_fields(self, wanted: Iterable[str]) -> None:
        """Refuse fields of a request that would be left out of it.

        Raises:
            Invalid: naming them, and those that there are.
        """
        unknown = sorted(set(wanted) - set(_FIELDS))
        if unknown:
            raise errors.Invalid(
                f"{self._connection.name} is never sent {', '.join(unknown)}. "
                f"It takes: {', '.join(_FIELDS)}."
            )

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del run_manager  # whoever calls the model counts and shows what it says
        call = current_call.get() or Call()
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        answer = await self._ask(payload, call)
        message = message_of(answer.turn, answer.request_id, payload, self._connection.name)
        message.id = call.message_id
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _ask(self, payload: dict[str, Any], call: Call) -> exchange.Answer:
        """Ask; where `stream_options` may be what is refused, ask once more without (L18)."""
        try:
            return await exchange.ask(self._connection, payload, call.take)
        except errors.ProviderRefused as refusal:
            named = "stream_options" in refusal.message
            if "stream_options" not in payload or not (
                named or (self._connection.stream_options is None and _is_bad_request(refusal))
            ):
                raise
            plain = {key: value for key, value in payload.items() if key != "stream_options"}
            try:
                answer = await exchange.ask(self._connection, plain, call.take)
            except errors.ProviderRefused:
                raise refusal from None
            self._connection.stream_options = False
            return answer

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotImplementedError("This model is asynchronous only: use `ainvoke`.")


def _is_bad_request(error: errors.ProviderError) -> bool:
    return error.details.get("status") in (400, 422)
