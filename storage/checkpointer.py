"""Checkpoints on PostgreSQL: LangGraph's saver, made strict about what it builds from bytes.

One object per run over the process's pool (the saver locks itself). Deserialising builds only
types that LangGraph counts as safe, and says so loudly where a checkpoint asks for another one
(case D13): the thread is damaged, nothing is executed, nothing is silently left out.

What a run writes stands under its claim: the check of owner and attempt is the first statement
of each write's transaction, so that a process which lost the run writes nothing (EXEC-34).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncCursor
from psycopg.rows import DictRow
from psycopg_pool import AsyncConnectionPool

from core.errors import CheckpointDamaged
from core.records import RunRecord
from storage.failures import translated
from storage.sealing import Keys

_FORMS: Final = frozenset({"null", "bytes", "bytearray", "msgpack"})
"""What this release writes. Older forms of the library could name classes and are refused."""

_FENCE: Final = "SELECT graphwright_hold_run(%s, %s, %s)"

_BLOCKED: Final = frozenset({"msgpack_blocked", "msgpack_method_blocked"})


class _Refused(threading.local):
    """Types that the library refused to build, in the call that this thread is in."""

    names: list[str] | None = None


_refused = _Refused()


def _note(event: SerdeEvent) -> None:
    if _refused.names is not None and event["kind"] in _BLOCKED:
        _refused.names.append(f"{event['module']}.{event['name']}")


register_serde_event_listener(_note)


class _Whole:
    """A text or number at the top of a state: the saver would leave it in clear otherwise."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class StrictSerializer(JsonPlusSerializer):
    """Seals what this product writes, and reads nothing else.

    A sealed value's form is that of its bytes, a plus sign, and the name of the key:
    `msgpack+1f0c22ab`. Values in clear, of releases that sealed nothing, are read as well.
    """

    def __init__(self, keys: Keys) -> None:
        """Take the keys that seal and open."""
        super().__init__(pickle_fallback=False, allowed_msgpack_modules=None)
        self._keys = keys

    def with_msgpack_allowlist(self, extra_allowlist: Any) -> JsonPlusSerializer:
        """Keep the list as it is: graphs store messages and plain data only."""
        del extra_allowlist
        return self

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Return a value's form and its sealed bytes."""
        form, data = super().dumps_typed(obj.value if isinstance(obj, _Whole) else obj)
        name, sealed = self._keys.seal(data, about=form.encode())
        return f"{form}+{name}", sealed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Return the stored value.

        Raises:
            CheckpointDamaged: the bytes name a type that is not on the list, or are no message,
                or were changed.
            EncryptionKeyMissing: they are sealed with a key that is not here.
        """
        form, sealed_by, name = data[0].partition("+")
        if form not in _FORMS:
            raise CheckpointDamaged(f"A checkpoint is stored in the unknown form «{form}».")
        refused: list[str] = []
        _refused.names = refused
        try:
            opened = self._keys.open(name, data[1], about=form.encode()) if sealed_by else data[1]
            value = super().loads_typed((form, opened))
            if refused:
                raise CheckpointDamaged(
                    f"A checkpoint asks for the type {refused[0]}, which is not allowed."
                )
        except ValueError as error:  # msgpack's own errors are of this kind
            raise CheckpointDamaged("A checkpoint cannot be read.") from error
        finally:
            _refused.names = None
        return value


class Checkpointer(AsyncPostgresSaver):
    """The saver of one run."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        serializer: StrictSerializer,
        claim: RunRecord | None = None,
    ) -> None:
        """Take the pool.

        Args:
            pool: connections in autocommit mode.
            serializer: makes bytes of values.
            claim: the run under whose claim is written; none for one who holds the session's
                row instead, or only reads.
        """
        super().__init__(pool, serde=serializer)
        self._saving = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._claim = (claim.id, claim.owner_id, claim.attempt) if claim else None

    async def settled(self) -> None:
        """Wait until what steps have written is stored.

        LangGraph tells of a step's writes while they are still on their way.
        """
        await self._settled.wait()

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a step has written."""
        self._saving += 1
        self._settled.clear()
        try:
            await super().aput_writes(config, writes, task_id, task_path)
        finally:
            self._saving -= 1
            if not self._saving:
                self._settled.set()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; plain values at the top are sealed like all others."""
        values = {
            name: _Whole(value) if isinstance(value, str | int | float) else value
            for name, value in checkpoint["channel_values"].items()
        }
        whole: Checkpoint = {**checkpoint, "channel_values": values}
        return await super().aput(config, whole, metadata, new_versions)

    @asynccontextmanager
    async def _cursor(self, *, pipeline: bool = False) -> AsyncGenerator[AsyncCursor[DictRow]]:
        """Give a cursor as the saver does, with its failures as the product's own errors.

        The saver asks for a pipeline for whatever it writes. A pipeline is one transaction, and
        the check raises inside the database, so that it costs no round trip.
        """
        with translated():
            async with super()._cursor(pipeline=pipeline) as cursor:
                if pipeline and self._claim is not None:
                    await cursor.execute(_FENCE, self._claim)
                yield cursor
