"""One turn out of the chunks of a stream. Pure: no network, no clock, no LangChain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from core.text import clean
from providers import usage
from providers.calls import CallJoiner
from providers.thinking import ThinkSplitter

Kind = Literal["text", "thinking"]

_NOT_AN_END: Final = frozenset({"", "null", "none"})
"""Finish reasons that some servers send with every chunk."""

_LENGTH: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_FAILED: Final = frozenset({"error", "network_error", "insufficient_system_resource"})
_NAME: Final = 200
"""Characters kept of names that the provider chooses."""

_HIGH: Final = re.compile("[\ud800-\udbff]$")


class StreamFailure(Exception):
    """The stream itself carries an error object."""

    def __init__(self, error: Any, shown: list[tuple[Kind, str]] | None = None) -> None:
        self.error = error
        self.shown = shown or []
        """Text of the very chunk that carried the error."""
        super().__init__("error in the stream")


@dataclass(slots=True)
class Turn:
    """What a stream has said so far."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    refused: bool = False
    finish: str = ""
    """The finish reason; empty as long as the end is not confirmed (P9)."""
    counts: usage.Counts | None = None
    joiner: CallJoiner = field(default_factory=CallJoiner)
    model: str = ""
    id: str = ""

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self.texts)

    @property
    def thinking(self) -> str:
        """The reasoning so far."""
        return "".join(self.thoughts)

    @property
    def confirmed(self) -> bool:
        """Whether the provider said that the turn is over."""
        return bool(self.finish)

    @property
    def empty(self) -> bool:
        """Whether there is neither an answer nor a call."""
        return not self.text.strip() and not self.joiner.calls

    def cut_short(self, max_tokens: int | None) -> bool:
        """Tell whether the output limit ended the turn, even where the server relabels it (L12)."""
        spent = self.counts.output if self.counts else None
        at_limit = max_tokens is not None and spent is not None and spent >= max_tokens
        return self.finish.lower() in _LENGTH or at_limit

    @property
    def filtered(self) -> bool:
        """Whether the provider's content filter ended the turn."""
        return self.finish.lower() in {"content_filter", "sensitive", "safety"}


class Assembler:
    """Takes chunks, keeps the turn, gives out pieces of text to be shown.

    A token costs one call of `feed`, so it is written for speed: exact `dict` and `list` checks
    (chunks come from a JSON parser), one list out, nothing done for fields that are absent.
    """

    def __init__(self) -> None:
        self.turn = Turn()
        self._splitter = ThinkSplitter()
        self._carry: dict[Kind, str] = {"text": "", "thinking": ""}

    def feed(self, chunk: Any) -> list[tuple[Kind, str]]:
        """Take one decoded chunk; return the pieces of text in it.

        Raises:
            StreamFailure: the chunk carries an error object; the text beside it is kept.
        """
        out: list[tuple[Kind, str]] = []
        if not isinstance(chunk, dict):
            return out
        chunk = cast("dict[str, Any]", chunk)
        choice = _choice(chunk)
        self._facts(chunk, choice)
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        if isinstance(delta, dict) and delta:
            self._delta(cast("dict[str, Any]", delta), out)
        error = chunk.get("error") or choice.get("error")
        finish = choice.get("finish_reason")
        if error or finish is not None:
            self._end(finish, error, out)
        return out

    def close(self) -> list[tuple[Kind, str]]:
        """Give out what was held back for a tag or a pair that never came."""
        out: list[tuple[Kind, str]] = []
        thinking, text = self._splitter.close()
        self._show("thinking", thinking, out)
        self._show("text", text, out)
        for kind in ("thinking", "text"):
            held, self._carry[kind] = self._carry[kind], ""
            self._say(kind, clean(held), out)
        return out

    def _end(self, finish: Any, error: Any, out: list[tuple[Kind, str]]) -> None:
        reason = finish.strip() if isinstance(finish, str) else ""
        if error or reason.lower() in _FAILED:
            raise StreamFailure(error or {"message": f"the answer ended with {reason!r}"}, out)
        if reason.lower() not in _NOT_AN_END:
            self.turn.finish = clean(reason)

    def _facts(self, chunk: dict[str, Any], choice: dict[str, Any]) -> None:
        turn = self.turn
        groq = chunk.get("x_groq")
        for place in (groq if isinstance(groq, dict) else {}, choice, chunk):
            if place.get("usage"):
                # Cumulative on each chunk with some servers, so the last one counts (L18).
                turn.counts = usage.read(place["usage"]) or turn.counts
        if not turn.id and isinstance(chunk.get("id"), str):
            turn.id = clean(chunk["id"])[:_NAME]
        if not turn.model and isinstance(chunk.get("model"), str):
            turn.model = clean(chunk["model"])[:_NAME]

    def _delta(self, delta: dict[str, Any], out: list[tuple[Kind, str]]) -> None:
        self._show("thinking", _reasoning(delta), out)
        if text := _flat(delta.get("content")):
            thinking, answer = self._splitter.feed(text)
            self._show("thinking", thinking, out)
            self._show("text", answer, out)
        if refusal := _flat(delta.get("refusal")):
            self.turn.refused = True
            self._show("text", refusal, out)
        if delta.get("tool_calls"):
            self.turn.joiner.feed(delta["tool_calls"])
        elif isinstance(delta.get("function_call"), dict):
            self.turn.joiner.feed([{"function": delta["function_call"]}])

    def _show(self, kind: Kind, text: str, out: list[tuple[Kind, str]]) -> None:
        """Give out valid text; half a surrogate pair waits for the delta with its other half."""
        if not text:
            return
        if self._carry[kind]:
            text, self._carry[kind] = self._carry[kind] + text, ""
        if not text.isascii() and _HIGH.search(text):
            text, self._carry[kind] = text[:-1], text[-1]
        self._say(kind, clean(text), out)

    def _say(self, kind: Kind, text: str, out: list[tuple[Kind, str]]) -> None:
        if text:
            (self.turn.texts if kind == "text" else self.turn.thoughts).append(text)
            out.append((kind, text))


def _choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """Return the first choice; null, missing and empty ones are as good as none (L07)."""
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (0, None):
            return cast("dict[str, Any]", choice)
    return {}


def _reasoning(delta: dict[str, Any]) -> str:
    for key in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(key), str) and delta[key]:
            return delta[key]
    details = delta.get("reasoning_details")
    return _flat(details) if isinstance(details, list) else ""


def _flat(content: Any) -> str:
    """Return the text of a content, also where it is a list of blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))
