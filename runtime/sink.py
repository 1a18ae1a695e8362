"""Takes a run's tokens and events as they come; plain appends, so that a token costs nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from core import events
from core.events import Event

PENDING_LIMIT = 8_000_000
"""Characters that may wait for the database; beyond it the run is stopped."""


@dataclass(slots=True)
class Text:
    """Adjacent pieces of one message; stored as one event."""

    message_id: str
    thinking: bool
    agent_id: str
    pieces: list[str] = field(default_factory=list[str])

    def event(self) -> Event:
        """Return the pieces as one event."""
        content = "".join(self.pieces)
        if self.thinking:
            return events.ThinkingToken(
                content=content, message_id=self.message_id, agent_id=self.agent_id
            )
        return events.Token(content=content, message_id=self.message_id)


@dataclass(slots=True)
class Partial:
    """Text of a message that is not whole yet."""

    text: list[str] = field(default_factory=list[str])
    thinking: list[str] = field(default_factory=list[str])


class Buffer:
    """What one run has said and the journal has not stored yet."""

    def __init__(self, agent_id: str, due: Callable[[bool], None]) -> None:
        self._agent_id = agent_id
        self._due = due
        self._entries: list[Event | Text] = []
        self._begun: set[tuple[str, bool]] = set()
        self.partials: dict[str, Partial] = {}
        """Text shown so far of messages that are not whole; what a cut or a cancel keeps."""
        self.pending_chars = 0

    def text(self, message_id: str, piece: str, *, thinking: bool) -> None:
        """Take a piece of a message."""
        if not piece:
            return
        partial = self.partials.setdefault(message_id, Partial())
        (partial.thinking if thinking else partial.text).append(piece)
        self.pending_chars += len(piece)
        last = self._entries[-1] if self._entries else None
        if isinstance(last, Text) and last.message_id == message_id and last.thinking == thinking:
            last.pieces.append(piece)
        else:
            self._entries.append(Text(message_id, thinking, self._agent_id, [piece]))
        first = (message_id, thinking) not in self._begun
        self._begun.add((message_id, thinking))
        self._due(first)

    def reset(self, message_id: str, reason: str) -> None:
        """Tell that a message starts anew, and forget what was kept of it.

        Where nothing of it was shown there is nothing to tell.
        """
        if self.partials.pop(message_id, None) is None:
            return
        self._begun -= {(message_id, True), (message_id, False)}
        self.event(events.MessageReset(message_id=message_id, reason=reason))

    def event(self, event: Event) -> None:
        """Take an event, after everything taken before."""
        self._entries.append(event)
        self._due(False)

    def whole(self, message_id: str) -> None:
        """Learn that a message is stored whole: nothing of it has to be kept apart."""
        self.partials.pop(message_id, None)

    def take(self) -> list[Event]:
        """Return everything taken so far, in order, and begin anew."""
        entries, self._entries = self._entries, []
        self.pending_chars = 0
        return [entry.event() if isinstance(entry, Text) else entry for entry in entries]


class RunSink:
    """The end of a buffer that nodes and model adapters hold; a `core.ports.TokenSink`.

    Once closed it takes nothing more: a tool that hangs in a thread after its run was
    cancelled cannot add to a history that is settled.
    """

    def __init__(self, buffer: Buffer, begun: Iterable[str] = ()) -> None:
        """Take the buffer.

        Args:
            buffer: takes what is said.
            begun: calls that watchers have seen begin in an earlier drive; they go on.
        """
        self._buffer = buffer
        self._open = True
        self._begun = set(begun)
        self.called = set(begun)
        """Calls that watchers see begin, now or in that drive."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def token(self, message_id: str, text: str) -> None:
        """Take a piece of the answer."""
        if self._open:
            self._buffer.text(message_id, text, thinking=False)

    def thinking(self, message_id: str, text: str) -> None:
        """Take a piece of the reasoning."""
        if self._open:
            self._buffer.text(message_id, text, thinking=True)

    def reset(self, message_id: str, reason: str) -> None:
        """Tell that the text of this message starts anew."""
        if self._open:
            self._buffer.reset(message_id, reason)

    def emit(self, event: Event) -> None:
        """Put an event into the run's journal, in order with the tokens.

        A tool may call this from its own thread.
        """
        if isinstance(event, events.ToolCall):
            self.called.add(event.tool_call_id)
            if event.tool_call_id in self._begun:
                self._begun.discard(event.tool_call_id)
                return
        if threading.get_ident() == self._thread:
            self._put(event)
        else:
            self._loop.call_soon_threadsafe(self._put, event)

    def close(self) -> None:
        """Take nothing more."""
        self._open = False

    def _put(self, event: Event) -> None:
        if self._open:
            self._buffer.event(event)
