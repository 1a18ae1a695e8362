"""`graphwright extension`: a new extension written, and those that are there looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli_base import examples, run, say

if TYPE_CHECKING:
    from core.errors import Fault
    from core.registry import Registry

commands = typer.Typer(
    help="Write a new extension, and list those that are there.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@commands.command(
    epilog=examples(
        "graphwright extension new airdesk",
        "graphwright extension new airdesk --path ~/my-extensions",
    )
)
def new(
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits, underscores.")],
    path: Annotated[
        Path | None,
        typer.Option(help="Folder to put it into. [default: extensions/ of this checkout]"),
    ] = None,
) -> None:
    """Write a working extension with a test that is green.

    It has a tool, an agent that uses it, and their tests. Prints the new folder on standard output and what to do next on standard error. Nothing
    that exists is changed or overwritten.
    """

    async def work() -> None:
        from core.settings import load_settings
        from server.skeleton import write

        known = load_settings().settings.extensions_path
        made = write(name, path, known)
        typer.echo(made.place)
        say(f"Written: {', '.join(made.files)}.\n\nNext:")
        if made.dotenv:
            say(f"  put this line into .env     {made.dotenv}")
        say(f"  run its tests               {made.test}")
        say(f"  start the server            {made.serve}")
        say(f"  talk to the new agent       {made.chat}")

    run(work)


@commands.command(
    name="list",
    epilog=examples(
        "graphwright extension list",
    ),
)
def list_extensions() -> None:
    """List the extensions with what they bring, and check them.

    Each is loaded, disabled or faulty. All are checked together as the server does it at its
    start; the database is not touched. Faults are told with file and cure, and end the command
    with 3.
    """

    async def work() -> None:
        from core.clock import SystemClock
        from core.errors import ConfigError
        from core.registry import Registry
        from core.settings import load_settings
        from runtime import extending
        from server.bootstrap import checked

        settings = load_settings().settings
        registry = Registry()
        folders = (extending.BUNDLED, *settings.extensions_path)
        extending.load(registry, folders, extending.installed())
        try:
            _, models = checked(settings, SystemClock())
        except ConfigError as error:
            _tell(_lines(registry, error.faults))
            raise
        _tell(_lines(registry, ()))
        await models.aclose()

    run(work)


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(line)


def _lines(registry: Registry, faults: Sequence[Fault]) -> list[str]:
    from server.skeleton import declared_tools

    said = {
        "agents": [(one.extension, one.name) for one in [*registry.agents, *registry.subgraphs]],
        "tools": declared_tools(registry),
        "services": [(one.extension, one.name) for one in registry.services],
        "middleware": [(one.extension, one.name) for one in registry.middleware],
        "hooks": [(one.extension, one.point) for one in registry.hooks],
    }
    width = max(map(len, registry.places), default=0)
    lines: list[str] = []
    for name, place in sorted(registry.places.items()):
        faulty = any(fault.where.startswith(place) for fault in faults)
        off = name in registry.disabled
        state = "faulty  " if faulty else "disabled" if off else "loaded  "
        own = {
            kind: [str(one) for by, one in all_of if by == name] for kind, all_of in said.items()
        }
        parts = [f"{kind}: {', '.join(names)}" for kind, names in own.items() if names]
        lines.append(f"{name:<{width}}  {state}  {'; '.join(parts)}".rstrip())
    return lines
