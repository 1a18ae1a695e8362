"""Turns the database's failures into the product's own errors, in one place."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import psycopg
import psycopg_pool
from sqlalchemy import exc

from core.errors import Unavailable

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


@contextmanager
def translated() -> Generator[None]:
    """Raise `Unavailable` in place of the errors that mean: the database is away."""
    try:
        yield
    except BaseException as error:
        instead = as_unavailable(error)
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
