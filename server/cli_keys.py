"""`graphwright key`: API keys made, listed and revoked beside a running server or without one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli_base import DataDir, examples, run, say

keys = typer.Typer(
    help="Make, list and revoke API keys.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@keys.command(
    epilog=examples(
        "graphwright key create --name laptop",
        "KEY=$(graphwright key create --name ci --days 30 --data-dir data)",
    )
)
def create(
    name: Annotated[str, typer.Option(help="What you call it, such as the program that uses it.")],
    days: Annotated[
        int | None, typer.Option(min=1, help="How long it holds. [default: until revoked]")
    ] = None,
    service: Annotated[
        bool, typer.Option("--service", help="It may act for other users by user_name.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Make a key and print it alone on standard output. It cannot be shown again."""

    async def work() -> None:
        async with _identity(data_dir) as identity:
            owner = await identity.local_principal()
            record, secret = await identity.create_key(owner, name, days=days, service=service)
        say(f"Made key {record.id} ({record.name}).")
        typer.echo(secret)

    run(work)


@keys.command(
    name="list",
    epilog=examples(
        "graphwright key list",
    ),
)
def list_keys(data_dir: DataDir = None) -> None:
    """List the keys: id, prefix, name, when it was last used, and whether it still holds."""

    async def work() -> None:
        async with _identity(data_dir) as identity:
            records = await identity.list_keys(await identity.local_principal())
        for key in records:
            used = key.last_used_at.isoformat(timespec="seconds") if key.last_used_at else "never"
            state = "revoked" if key.revoked_at else "valid"
            if key.expires_at is not None and not key.revoked_at:
                state = f"valid until {key.expires_at.isoformat(timespec='seconds')}"
            typer.echo(f"{key.id}  {key.prefix}  {key.name}  used {used}  {state}")
        if not records:
            say("There are no keys. Make one: graphwright key create --name NAME")

    run(work)


@keys.command(
    epilog=examples(
        "graphwright key revoke 0197c0de-…",
    )
)
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id as `key list` shows it.")],
    data_dir: DataDir = None,
) -> None:
    """Withdraw a key; running servers refuse it within seconds."""

    async def work() -> None:
        async with _identity(data_dir) as identity:
            await identity.revoke_key(await identity.local_principal(), key_id)
        say("Revoked.")

    run(work)


def _identity(data_dir: Path | None):  # noqa: ANN202 - its type would cost the import
    from core.clock import SystemClock
    from core.settings import load_settings
    from server import opening

    return opening.identity_alone(load_settings(data_dir=data_dir), SystemClock())
