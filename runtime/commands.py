"""What callers ask of the runtime, whatever door they came through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from core.types import Mode, RunKind


@dataclass(frozen=True, slots=True)
class Upload:
    """One file that came with a message."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A message that begins a run."""

    message: str
    session_id: str | None = None
    """Missing: a new session."""
    thread_id: str | None = None
    """Where given it must equal `session_id`."""
    mode: Mode | None = None
    """Missing: the session keeps its mode; a new one is `full`."""
    files: tuple[Upload, ...] = ()
    request_id: str | None = None
    """The caller's own key; the same key never runs twice."""
    agent: str | None = None
    model: str | None = None
    thinking: str | None = None
    on_disconnect: Literal["continue", "cancel"] = "continue"
    multitask: str = "reject"
    trace_id: str | None = None
    kind: RunKind = RunKind.CHAT
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Limits of this run in place of the agent's, by the names of `core.context.Limits`."""
    script: Mapping[str, Any] | None = None
    """What a script that carries out its own run notes with it."""
    instead_of: str | None = None
    """The run that `request_id` stood for and does not any more."""


@dataclass(frozen=True, slots=True)
class ResumeCommand:
    """An answer to what a waiting run asked."""

    session_id: str
    interrupt_token: str
    answer: Any = field(default_factory=dict[str, Any])
    """The body as it came, without the two fields above; checked against the card."""
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A run that was accepted: from here on it ends in a terminal state or waits for a person."""

    run_id: str
    session_id: str
    trace_id: str
    after: int = 0
    """Follow from this number on to see what this command caused."""
    on_disconnect: str = "continue"
    """`cancel`: whoever follows on this command's behalf takes the run along when they leave."""
