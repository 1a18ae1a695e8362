"""What all repositories share: the transaction, the scope of a principal, rows to records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from psycopg import AsyncConnection
from sqlalchemy import ColumnElement, CursorResult, Executable, RowMapping, Table, and_
from sqlalchemy.ext.asyncio import AsyncConnection as SqlConnection

from core.principal import Principal

Record = TypeVar("Record")


class Repository:
    """Base of the repositories; lives as long as its unit of work."""

    def __init__(self, sql: SqlConnection, raw: AsyncConnection[Any]) -> None:
        self._sql = sql
        self._raw = raw

    async def _execute(self, statement: Executable) -> CursorResult[Any]:
        return await self._sql.execute(statement)

    async def _one(self, statement: Executable) -> RowMapping | None:
        """Return the first row, or none."""
        return (await self._sql.execute(statement)).mappings().first()

    async def _all(self, statement: Executable) -> list[RowMapping]:
        return list((await self._sql.execute(statement)).mappings())

    async def _changed(self, statement: Executable) -> int:
        """Return how many rows an update or a delete changed; inserts do not tell."""
        return (await self._sql.execute(statement)).rowcount


def scope(table: Table, principal: Principal) -> ColumnElement[bool]:
    """Return the condition that a row is the principal's own. Every scoped read has it."""
    return and_(
        table.c.workspace_id == principal.workspace_id, table.c.user_id == principal.user_id
    )


def owner_of(principal: Principal) -> dict[str, str]:
    """Return the two columns that say whose a new row is."""
    return {"workspace_id": principal.workspace_id, "user_id": principal.user_id}


@cache
def _fields(record: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


def to_record(record: type[Record], row: Mapping[Any, Any], **instead: Any) -> Record:
    """Build a record from a row's columns of the same names; `instead` takes precedence."""
    values = {name: row[name] for name in _fields(record) if name not in instead and name in row}
    return record(**values, **instead)


def to_row(record: Any, table: Table) -> dict[str, Any]:
    """Return the fields of a record that are columns of the table."""
    kind: type[Any] = record.__class__
    return {name: getattr(record, name) for name in _fields(kind) if name in table.columns}


def like(text: str) -> str:
    """Return a pattern that finds the text anywhere, whatever signs it has."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
