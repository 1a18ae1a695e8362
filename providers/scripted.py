"""A model that says what a test's script says, and remembers what it was asked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from core import tokens
from core.errors import Invalid
from core.ports import ModelHandle, TokenSink
from providers.history import HistoryEncoder, flat
from providers.windows import UNKNOWN, reserve_of

_PIECE: Final = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes; `call(…)` writes it shorter."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One whole answer of the model; `say(…)` writes it shorter."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What the model was asked once."""

    messages: tuple[BaseMessage, ...]
    schemas: tuple[dict[str, Any], ...]
    """The tools offered, as a provider is told of them."""

    @property
    def system(self) -> str:
        """Return the whole system prompt."""
        found = [one for one in self.messages if isinstance(one, SystemMessage)]
        return "\n".join(flat(one.content) for one in found)

    @property
    def tools(self) -> list[str]:
        """Return the names of the tools offered."""
        return [schema["function"]["name"] for schema in self.schemas]

    @property
    def last(self) -> str:
        """Return the text of the last message: the user's, or a tool's result."""
        return flat(self.messages[-1].content)


Reply = str | Call | Turn | BaseException | Callable[[Request], "str | Call | Turn"]
"""A text, a call, a turn of both, an error to raise, or a function of the request."""


class ScriptOver(AssertionError):
    """The model was asked more often than the script has replies."""


class ScriptedModel(ModelHandle):
    """Answers with one reply after another. Implements `core.ports.ModelHandle` and `Models`."""

    name = "scripted"
    provider = "scripted"
    is_demo = False

    def __init__(self, *replies: Reply, context_window: int = UNKNOWN) -> None:
        """Take the replies in order.

        Args:
            replies: see `Reply`. Each question to the model takes one, those for a summary or
                a completion review too.
            context_window: tokens that fit; a small one makes the agent summarise.
        """
        self.context_window = context_window
        self.max_output = reserve_of(context_window)
        self.left: list[Reply] = list(replies)
        """Replies that nobody has asked for yet."""
        self.requests: list[Request] = []
        """What it was asked, in order."""
        self.fault: ScriptOver | None = None
        """Set once it was asked for too much: a run hides the error, its test must not."""
        self._calls = itertools.count(1)
        self._encoder = HistoryEncoder()

    def get(self, name: str | None) -> ModelHandle:
        """Return itself for its own name and for the default; see `core.ports.Models`.

        Raises:
            Invalid: another model is asked for.
        """
        if name not in (None, self.name):
            raise Invalid(f"There is no model {name!r} here; there is {self.name!r}.")
        return self

    def names(self) -> list[str]:
        """Return its name alone."""
        return [self.name]

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
        """Say the next reply, piece by piece; see `core.ports.ModelHandle`.

        A script is as long as it is, and nothing bends it.
        """
        del max_tokens, options
        turn = self._next(Request(tuple(messages), tuple(tools)))
        if sink is not None:
            for piece in _PIECE.findall(turn.thinking):
                sink.thinking(message_id, piece)
            for piece in _PIECE.findall(turn.text):
                sink.token(message_id, piece)
        asked = tokens.estimate_request(self._encoder.encode(messages), tools)
        said = tokens.estimate_text(f"{turn.thinking}{turn.text}{list(turn.calls) or ''}")
        return AIMessage(
            content=turn.text,
            id=message_id,
            tool_calls=[
                {"name": one.tool, "args": one.args, "id": f"call_{next(self._calls)}"}
                for one in turn.calls
            ],
            additional_kwargs={"reasoning_content": turn.thinking} if turn.thinking else {},
            usage_metadata={
                "input_tokens": asked,
                "output_tokens": said,
                "total_tokens": asked + said,
            },
            response_metadata={
                "finish_reason": "tool_calls" if turn.calls else "stop",
                "model": self.name,
                "provider": self.provider,
                "request_id": "",
                "usage_source": "estimate",
                "truncated": False,
            },
        )

    def _next(self, request: Request) -> Turn:
        """Return the next turn, or raise what the script says."""
        self.requests.append(request)
        if not self.left:
            self.fault = ScriptOver(
                f"The model was asked {len(self.requests)} times, but its script has "
                f"{len(self.requests) - 1} replies. It was last told: {request.last[:300]!r}"
            )
            raise self.fault
        reply = self.left.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        said = reply(request) if callable(reply) else reply
        if isinstance(said, Call):
            return Turn(calls=(said,))
        return Turn(said) if isinstance(said, str) else said


def call(tool: str, /, **args: Any) -> Call:
    """Return a call of a tool with these arguments."""
    return Call(tool, args)


def say(text: str, *calls: Call, thinking: str = "") -> Turn:
    """Return a turn: a text, calls that are made at once, and reasoning."""
    return Turn(text, calls, thinking)
