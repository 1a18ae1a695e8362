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
    """Write a working extension: a tool, an agent, and a test that is green.

    Prints the new folder on standard output and what to do next on standard error. Nothing
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
    """List the extensions: loaded, disabled or faulty, with their agents, tools and services.

    Loads them as the server does and checks everything together; the database is not
    touched. Faults are told with file and cure, and end the command with 3.
    """

    async def work() -> None:
        from api.ext import faults_of
        from core.clock import SystemClock
        from core.errors import ConfigError
        from core.settings import load_settings
        from runtime.composing import composed, registered

        settings = load_settings().settings
        registry = registered(settings)
        faults: Sequence[Fault] = ()
        try:
            further = faults_of(registry.routers)
            _, models = composed(settings, SystemClock(), registry, further)
            await models.aclose()
        except ConfigError as error:
            faults = error.faults
        for line in _lines(registry, faults):
            typer.echo(line)
        if faults:
            raise ConfigError(faults)

    run(work)


def _lines(registry: Registry, faults: Sequence[Fault]) -> list[str]:
    from server.skeleton import declared_tools

    said = {
        "agents": [(one.extension, one.name) for one in [*registry.agents, *registry.subgraphs]],
        "tools": declared_tools(registry),
        "services": [(one.extension, one.name) for one in registry.services],
    }
    width = max(map(len, registry.places), default=0)
    lines: list[str] = []
    for name, where in sorted(registry.places.items()):
        state = "disabled" if name in registry.disabled else "loaded  "
        if any(f"{fault.where}: ".startswith(f"{where}: ") for fault in faults):
            state = "faulty  "
        own = {kind: [one for by, one in all_of if by == name] for kind, all_of in said.items()}
        parts = [f"{kind}: {', '.join(names)}" for kind, names in own.items() if names]
        lines.append(f"{name:<{width}}  {state}  {'; '.join(parts)}".rstrip())
    return lines
