"""The door to PostgreSQL: one `Database` per process, with its two pools of connections.

Transactions go through SQLAlchemy (`Database.work()`); checkpoints go through a pool of plain
connections in autocommit mode, as LangGraph's saver wants them (`Database.checkpointer()`).
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import event, exc
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from core.ids import new_id
from storage.failures import translated
from storage.owners import connection_name
from storage.sealing import Keys
from storage.text import context
from storage.work import UnitOfWork

if TYPE_CHECKING:
    from core.records import RunRecord
    from storage.checkpointer import Checkpointer, StrictSerializer

CONNECT_TIMEOUT: Final = 10
"""Seconds for one new connection."""

POOL_TIMEOUT: Final = 15.0
"""Seconds to wait for a free connection before the database counts as not available."""

_KEEPALIVE: Final[dict[str, Any]] = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}


class Database:
    """Connections of one process to one database."""

    def __init__(
        self,
        url: str,
        engine: AsyncEngine,
        pool: AsyncConnectionPool[Any],
        keys: Keys,
        process: str,
    ) -> None:
        self.process = process
        """Name of this process in the database: that of its connections, and as an owner of runs."""
        self.keys = keys
        """What seals states and stored credentials."""
        self.url = url
        """Plain `postgresql://` address: a secret, never logged."""
        self.pool = pool
        """Connections in autocommit mode with rows as dicts, each statement prepared."""
        self._engine = engine
        self._serializer: StrictSerializer | None = None

    @classmethod
    async def open(cls, url: str, *, pool_size: int, keys: Keys) -> Database:
        """Connect to a database that is migrated.

        Args:
            url: plain `postgresql://` address.
            keys: seal and open what nobody may read in the database.
            pool_size: connections at most, both pools together; at least 2.

        Raises:
            Unavailable: it cannot be reached, or refuses the password.
        """
        half = max(pool_size // 2, 1)
        process = new_id()
        named = _KEEPALIVE | {"application_name": connection_name(process)}
        engine = _engine(url, max(pool_size - half, 1), named)
        pool = AsyncConnectionPool[psycopg.AsyncConnection[DictRow]](
            url,
            min_size=1,
            max_size=half,
            timeout=POOL_TIMEOUT,
            kwargs={
                **named,
                "autocommit": True,
                "prepare_threshold": 0,
                "row_factory": dict_row,
                "context": context(),
            },
            check=_check,
            open=False,
        )
        database = cls(url, engine, pool, keys, process)
        try:
            await database.ping()
            with translated():
                await pool.open(wait=True, timeout=POOL_TIMEOUT)
        except BaseException:
            await database.close()
            raise
        return database

    def work(self) -> UnitOfWork:
        """Return a transaction to be entered with `async with`.

        Raises:
            Unavailable: on entering, inside, or at the commit, when the database is away.
        """
        return UnitOfWork(self._engine)

    def checkpointer(self, claim: RunRecord | None = None) -> Checkpointer:
        """Return a new checkpointer over the shared pool; one per run, it locks itself.

        Args:
            claim: the run under whose claim is written; none to read only, or for one who holds
                the session's row.
        """
        from storage.checkpointer import Checkpointer, StrictSerializer

        if self._serializer is None:
            self._serializer = StrictSerializer(self.keys)
        return Checkpointer(self.pool, self._serializer, claim)

    async def ping(self) -> float:
        """Return how long the database takes to answer, in milliseconds.

        Raises:
            Unavailable: it does not answer.
        """
        began = time.perf_counter()
        async with self.work() as work:
            await work.connection.execute("SELECT 1")
        return (time.perf_counter() - began) * 1000

    async def close(self) -> None:
        """Close all connections."""
        await self.pool.close()
        await self._engine.dispose()


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Refuse a pooled connection that died meanwhile, so that the pool makes another."""
    await AsyncConnectionPool.check_connection(connection)


def _engine(url: str, size: int, options: dict[str, Any]) -> AsyncEngine:
    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(url, context=context(), **options)

    engine = create_async_engine(
        "postgresql+psycopg://",
        async_creator=connect,
        pool_size=size,
        max_overflow=0,
        pool_timeout=POOL_TIMEOUT,
        use_native_hstore=False,
        hide_parameters=True,
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def _refuse_closed(connection: Any, record: Any, proxy: Any) -> None:
    """Notice, without asking the server, that it has closed a pooled connection meanwhile.

    An idle connection has nothing to read unless the server said its last word on it. One look
    at the socket does what a ping would, without a round trip; the whole pool is made anew then.
    """
    del record, proxy
    watched = select.poll()
    try:
        watched.register(connection.driver_connection.pgconn.socket, select.POLLIN)
    except psycopg.OperationalError as error:
        raise exc.InvalidatePoolError from error
    if watched.poll(0):
        raise exc.InvalidatePoolError
