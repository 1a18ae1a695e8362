"""Turns the database's failures into the product's own errors, in one place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg
import psycopg_pool
from sqlalchemy import exc

from core.errors import RunLost, Unavailable

LOST: Final = "GW001"
"""SQLSTATE of a write by somebody who does not hold the run (any more)."""

_AWAY: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
    psycopg_pool.TooManyRequests,
    exc.OperationalError,
    exc.InterfaceError,
    exc.TimeoutError,
    ConnectionError,
)
"""Errors of the connection or of the server's resources, not of the statement."""


def as_unavailable(error: BaseException) -> Unavailable | None:
    """Return the error to raise instead where the database is away or gave up, otherwise none.

    The message names the kind of failure only: statements and parameters never leave storage.
    """
    lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    if isinstance(error, _AWAY) or lost:
        return Unavailable(f"The database is not available ({_kind(error)}).")
    return None


def as_own(error: BaseException) -> Unavailable | RunLost | None:
    """Return the product's own error for one of the database's, otherwise none."""
    if isinstance(error, psycopg.Error) and error.sqlstate == LOST:
        return RunLost("This run is carried out by somebody else now.")
    return as_unavailable(error)


@contextmanager
def translated() -> Generator[None]:
    """Raise the product's own errors in place of the database's."""
    try:
        yield
    except BaseException as error:
        instead = as_own(error)
        if instead is None:
            raise
        raise instead from error


def _kind(error: BaseException) -> str:
    cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig else error
    return type(cause).__name__


def constraint(error: exc.IntegrityError) -> str:
    """Return the name of the constraint that refused a row."""
    cause = error.orig
    if isinstance(cause, psycopg.Error):
        return cause.diag.constraint_name or ""
    return ""
