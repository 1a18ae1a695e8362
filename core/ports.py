"""What a room needs and may not import, as protocols; implemented below and handed in.

Nobody looks anything up: `runtime` and `server` build the objects and pass them on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from core.principal import Principal


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file or folder, under its virtual path."""

    path: str
    """Virtual, such as `/workspace/report.md`."""
    kind: str
    """`file` or `folder`."""
    size: int
    modified_at: datetime
    sha256: str | None = None
    """Set where the content was read."""


class FileStore(Protocol):
    """The files of one session's project, by virtual path (WORK-02).

    Every method raises `PathRefused` for a path that is not a plain path under a known root,
    `FileMissing` where nothing is there, `TooLarge` over a limit, `FileChanged` when
    `expected_sha256` is given and does not fit. Nothing is half written.
    """

    async def read(self, path: str) -> tuple[bytes, FileEntry]:
        """Return the whole content and its entry (with `sha256`)."""
        ...

    async def write(
        self, path: str, content: bytes, *, expected_sha256: str | None = None
    ) -> FileEntry:
        """Replace or create the file in one step; folders above it are made."""
        ...

    async def append(self, path: str, content: bytes) -> FileEntry:
        """Add to the end of the file, creating it."""
        ...

    async def list(self, path: str, *, recursive: bool = False) -> list[FileEntry]:
        """Return the entries of a folder, sorted by path."""
        ...

    async def store_upload(self, name: str, content: bytes) -> FileEntry:
        """Store an uploaded file under `/workspace/uploads/`, never overwriting another."""
        ...

    async def remove(self, path: str) -> None:
        """Remove one file."""
        ...

    async def delete_all(self) -> None:
        """Remove everything of this project."""
        ...


class Archive(Protocol):
    """Keeps what summarising removed from the model's view (EXEC-11)."""

    async def append(self, session_id: str, text: str) -> str:
        """Add text to the session's archive and return its virtual path."""
        ...

    async def keep(self, message_id: str, text: str) -> str:
        """Store one long tool result whole and return its virtual path; a repeat replaces it."""
        ...


class FileStores(Protocol):
    """Opens the file store of a project."""

    def open(self, principal: Principal, project_id: str, session_id: str) -> FileStore:
        """Return the store of that project; nothing is created before the first write.

        `/conversation_history/` can only be read through it.
        """
        ...

    def archive(self, principal: Principal, project_id: str) -> Archive:
        """Return the one writer of that project's `/conversation_history/`."""
        ...


class TokenSink(Protocol):
    """Where a model's text goes while it is written: straight into the run's journal.

    All three are plain calls that only append to a buffer, so that a token costs next to nothing.
    """

    def token(self, message_id: str, text: str) -> None:
        """Take a piece of the answer."""
        ...

    def thinking(self, message_id: str, text: str) -> None:
        """Take a piece of the reasoning."""
        ...

    def reset(self, message_id: str, reason: str) -> None:
        """Tell that the text of this message starts anew."""
        ...


class Grants(Protocol):
    """Standing permissions to call a tool without asking again (EXEC-20)."""

    async def granted(self, principal: Principal, session_id: str) -> frozenset[str]:
        """Return the names of tools that were allowed for this session or workspace."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """What the journal knew of a call when it was to begin."""

    starts: int = 0
    """How often it has begun before."""
    outcome: Mapping[str, Any] | None = None
    """How it ended, where it did."""


class CallJournal(Protocol):
    """Notes calls that may change something, before and after they are carried out (EXEC-35).

    Every method raises `RunLost` where this process does not hold the run any more, and waits
    for a database that is away.
    """

    async def begin(self, key: str, tool: str, *, agreed: int) -> Begun:
        """Note that a call begins, unless it has ended or begun more often than agreed.

        Args:
            key: which call of this run, the same one after a crash.
            tool: its tool's name.
            agreed: earlier beginnings after which it may begin once more.
        """
        ...

    async def end(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Note how a call ended; JSON-ready."""
        ...

    async def withdraw(self, key: str) -> None:
        """Take the last beginning back: nothing was done yet."""
        ...


class Usages(Protocol):
    """Takes the tokens of model calls; they are stored with the run's next boundary."""

    def add(self, purpose: str, usage: dict[str, Any]) -> None:
        """Count one model call. `usage` has the fields of `core.events.Usage` and `model`."""
        ...


class ModelHandle(Protocol):
    """One model, ready to be asked."""

    name: str
    provider: str
    """Name of the connection, for messages."""
    context_window: int
    """Tokens that fit, output included."""
    max_output: int
    """Tokens reserved for the answer."""
    is_demo: bool

    async def ask(
        self,
        messages: Sequence[Any],
        *,
        tools: Sequence[dict[str, Any]] = (),
        message_id: str,
        sink: TokenSink | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Send the messages and return one whole `AIMessage` with that id.

        `options` are further fields of the request, such as `tool_choice` or `temperature`.

        Text goes to `sink` as it comes. The message carries `usage_metadata` (or none) and
        `response_metadata` with `finish_reason`, `model`, `request_id`, `usage_source`.
        Reasoning text is in `additional_kwargs["reasoning_content"]`. Calls whose arguments
        are not a JSON object are in `invalid_tool_calls`, never in `tool_calls`.

        Raises:
            ProviderError: one of its family; `ContextOverflow` where the request is too long.
        """
        ...


class Models(Protocol):
    """Gives out models by name."""

    def get(self, name: str | None) -> ModelHandle:
        """Return the model, or the default one for `None`.

        Raises:
            Invalid: no such model is configured.
        """
        ...

    def names(self) -> list[str]:
        """Return the models that may be asked for, the default one first."""
        ...
