"""`graphwright chat`: a conversation in the terminal, with a server here or elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from server.cli_base import DataDir, examples, run


@dataclass(frozen=True, slots=True)
class _Target:
    url: str | None
    key: str | None
    data_dir: Path | None


def chat(
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Send this one message and end.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(help="Address of the server. [default: the one on the data folder]"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="API key; @FILE reads it from a file. [default: one for a day is made]"),
    ] = None,
    session: Annotated[str | None, typer.Option(help="Go on with this session.")] = None,
    agent: Annotated[str | None, typer.Option(help="Name of the agent.")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Change nothing before a plan was approved.")
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Talk to an agent in the terminal.

    Shows its text, thinking and tool calls as they come. Approvals, questions and plans are asked for here. Without a terminal the answer goes to
    standard output and everything else to standard error; a run that asks something then
    ends the command with 5 and waits for its answer.
    """
    fields = {"agent": agent or "", "mode": "plan" if plan else ""}

    async def work() -> int:
        from server.terminal.asking import read_line
        from server.terminal.screen import Screen
        from server.terminal.talk import Talk
        from server.terminal.wire import Refused, Wire

        person = sys.stdin.isatty() and sys.stdout.isatty()
        if message is None and not person:
            raise typer.BadParameter("without a terminal, --message says what to send")
        async with _opened(_Target(url, key, data_dir)) as wire:
            assert isinstance(wire, Wire)
            read = read_line if person else None
            given = {name: value for name, value in fields.items() if value}
            talk = Talk(wire, Screen(), read, session, given)
            try:
                return await (talk.loop() if message is None else talk.once(message))
            except Refused:
                return 1

    run(work)


EXAMPLES = examples(
    "graphwright chat",
    'graphwright chat --message "What is 17 * 23?"',
    "graphwright chat --url https://agents.example.org --key @~/.graphwright-key",
)


@asynccontextmanager
async def _opened(target: _Target) -> AsyncIterator[object]:
    """Give the connection; a key that was made for it is revoked at the end."""
    from core.clock import SystemClock
    from core.settings import load_settings
    from server import opening, place
    from server.terminal.wire import Wire

    clock = SystemClock()
    if target.key is not None and target.url is not None:
        wire = Wire(target.url, _read_key(target.key), clock)
        try:
            yield wire
        finally:
            await wire.close()
        return
    loaded = load_settings(data_dir=target.data_dir, log_level="WARNING")
    url = target.url or place.url_of_running(loaded.settings)
    if target.key is not None:
        async with _opened(_Target(url, target.key, None)) as wire:
            yield wire
        return
    async with opening.identity_alone(loaded, clock) as identity:
        owner = await identity.local_principal()
        record, secret = await identity.create_key(owner, "terminal", days=1)
        try:
            async with _opened(_Target(url, secret, None)) as wire:
                yield wire
        finally:
            await identity.revoke_key(owner, record.id)


def _read_key(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).expanduser().read_text().strip()
    except OSError as error:
        raise typer.BadParameter(f"the key file cannot be read: {error.strerror}") from error
