"""The unit of work: one transaction, and one repository per noun that takes part in it.

    async with database.work() as work:
        session = await work.sessions.lock(principal, session_id)
        …                                   # commits here, or rolls back on any exception

Keep it short: never await a model, a tool or a client inside. Reads that take a principal see
only its own rows and raise `NotFound` for anything else. Each repository's docstrings say what
its methods raise.
"""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import Any, Self

from psycopg import AsyncConnection
from sqlalchemy.ext.asyncio import AsyncConnection as SqlConnection
from sqlalchemy.ext.asyncio import AsyncEngine

from storage.archives import Archives
from storage.calls import Calls
from storage.encryption import Encryption
from storage.events import Events
from storage.failures import as_own, translated
from storage.grants import Grants
from storage.identity import Identities
from storage.interrupts import Interrupts
from storage.messages import Messages
from storage.owners import Owners
from storage.preferences import Preferences
from storage.projects import Projects
from storage.request_keys import RequestKeys
from storage.runs import Runs
from storage.sessions import Sessions
from storage.tool_results import ToolResults
from storage.usage import UsageEvents


class UnitOfWork:
    """One transaction. Made by `Database.work()`."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._sql: SqlConnection | None = None
        self._raw: AsyncConnection[Any] | None = None

    async def __aenter__(self) -> Self:
        with translated():
            sql = await self._engine.connect()
            try:
                await sql.begin()
                raw = (await sql.get_raw_connection()).driver_connection
            except BaseException:
                await sql.close()
                raise
        self._sql, self._raw = sql, raw
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._sql is not None
        with translated():
            try:
                if error is None:
                    await self._sql.commit()
            finally:
                await self._sql.close()
        instead = None if error is None else as_own(error)
        if instead is not None:
            raise instead from error

    @property
    def connection(self) -> AsyncConnection[Any]:
        """The driver's connection in this very transaction (for the queue and for NOTIFY)."""
        assert self._raw is not None, "use it inside `async with database.work()`"
        return self._raw

    def _parts(self) -> tuple[SqlConnection, AsyncConnection[Any]]:
        assert self._sql is not None, "use it inside `async with database.work()`"
        return self._sql, self.connection

    async def notify(self, channel: str, payload: str) -> None:
        """Tell listeners of a channel, once this transaction has been committed.

        Args:
            channel: name of the channel.
            payload: at most 7,900 bytes.
        """
        await self.connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))

    @cached_property
    def sessions(self) -> Sessions:
        """Conversations."""
        return Sessions(*self._parts())

    @cached_property
    def projects(self) -> Projects:
        """Folders that sessions share."""
        return Projects(*self._parts())

    @cached_property
    def runs(self) -> Runs:
        """Requests with all their resumptions."""
        return Runs(*self._parts())

    @cached_property
    def request_keys(self) -> RequestKeys:
        """Clients' unique keys."""
        return RequestKeys(*self._parts())

    @cached_property
    def messages(self) -> Messages:
        """What the user sees."""
        return Messages(*self._parts())

    @cached_property
    def tool_results(self) -> ToolResults:
        """Whole results of tool calls."""
        return ToolResults(*self._parts())

    @cached_property
    def events(self) -> Events:
        """The journal."""
        return Events(*self._parts())

    @cached_property
    def calls(self) -> Calls:
        """The tool journal."""
        return Calls(*self._parts())

    @cached_property
    def interrupts(self) -> Interrupts:
        """Questions to people."""
        return Interrupts(*self._parts())

    @cached_property
    def usage(self) -> UsageEvents:
        """Tokens of model calls."""
        return UsageEvents(*self._parts())

    @cached_property
    def archives(self) -> Archives:
        """Summarisations."""
        return Archives(*self._parts())

    @cached_property
    def preferences(self) -> Preferences:
        """What a user wants every agent to know."""
        return Preferences(*self._parts())

    @cached_property
    def grants(self) -> Grants:
        """Tools that need no further approval."""
        return Grants(*self._parts())

    @cached_property
    def owners(self) -> Owners:
        """Processes that carry out runs."""
        return Owners(*self._parts())

    @cached_property
    def encryption(self) -> Encryption:
        """Keys that seal what is stored."""
        return Encryption(*self._parts())

    @cached_property
    def identity(self) -> Identities:
        """Workspaces, users and their credentials."""
        return Identities(*self._parts())
