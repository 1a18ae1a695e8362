"""`graphwright encryption`: which key seals what, and a new key without a pause (EXEC-40)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import typer

from server.cli_base import DataDir, examples, run, say

if TYPE_CHECKING:
    from pathlib import Path

    from core.settings import Settings
    from storage.database import Database

encryption = typer.Typer(
    help="Show and rotate the keys that seal stored states.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@encryption.command(epilog=examples("graphwright encryption status"))
def status(data_dir: DataDir = None) -> None:
    """Show where the keys are and how many stored values each of them seals."""

    async def work() -> None:
        from runtime.keyrings import place_of

        async with _opened(data_dir) as (database, settings):
            async with database.work() as work:
                counts = await work.encryption.counts()
            typer.echo(f"keys in {place_of(settings)}")
            for name in database.keys.names:
                mark = "seals" if name == database.keys.current else "opens"
                typer.echo(f"{name}  {mark}  {counts.pop(name, 0)} values")
            for name, number in sorted(counts.items()):
                what = f"{name}  missing here" if name else "in clear, of an earlier release"
                typer.echo(f"{what}  {number} values")

    run(work)


@encryption.command(epilog=examples("graphwright encryption rotate"))
def rotate(data_dir: DataDir = None) -> None:
    """Seal everything with a new key and take the old ones away; servers may go on running.

    With GW_ENCRYPTION_KEYS, put the new key first there and restart the servers before you run
    this: then only the values are sealed anew.
    """

    async def work() -> None:
        from runtime.keyrings import seal_all_anew
        from storage.sealing import add_key, drop_keys

        async with _opened(data_dir) as (database, settings):
            in_file = not settings.encryption_keys.get_secret_value().strip()
            if in_file:
                add_key(settings.data_dir)
            current = database.keys.current
            sealed = await seal_all_anew(database)
            old = set(database.keys.names) - {current}
            async with database.work() as work:
                used = {name for name, number in (await work.encryption.counts()).items() if number}
                gone = old - used
                await work.encryption.forget(gone)
            if in_file:
                drop_keys(settings.data_dir, sorted(gone))
        say(f"The key {current} seals everything now; {sealed} values were sealed anew.")
        if old - gone:
            say(f"Still in use: {', '.join(sorted(old - gone))}. Run this once more in a minute.")
        elif not in_file and old:
            say(f"Take the old keys out of GW_ENCRYPTION_KEYS: {', '.join(sorted(old))}.")

    run(work)


@asynccontextmanager
async def _opened(data_dir: Path | None) -> AsyncIterator[tuple[Database, Settings]]:
    from core.clock import SystemClock
    from core.settings import load_settings
    from runtime import opening

    settings = load_settings(data_dir=data_dir).settings
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(opening.database_url(settings, SystemClock()))
        yield await stack.enter_async_context(opening.database_at(url, settings)), settings
