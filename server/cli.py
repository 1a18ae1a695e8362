"""The command `graphwright`. Every command imports what it needs when it runs, so help is quick."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from server import cli_batch
from server.cli_base import DataDir, examples, run
from server.cli_chat import EXAMPLES, chat
from server.cli_encryption import encryption
from server.cli_extensions import commands as extension_commands
from server.cli_keys import keys

_EPILOG = (
    "Exit codes: 0 done, 1 failed, 2 wrong use of the command line, 3 the configuration has "
    "faults and nothing was started, 4 the database or the server is not available, 5 a run "
    "waits for an answer, "
    "130 interrupted."
)

app = typer.Typer(
    name="graphwright",
    help="A self-hosted server that runs LangGraph agents for people and programs.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(keys, name="key")
app.add_typer(encryption, name="encryption")
app.add_typer(extension_commands, name="extension")
app.command(epilog=EXAMPLES)(chat)
app.command(epilog=cli_batch.EXAMPLES)(cli_batch.batch)


@app.command(
    epilog=examples(
        "graphwright serve",
        "graphwright serve --port 9000 --data-dir /srv/graphwright",
        "graphwright serve --workers 2",
    )
)
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: HOST]")] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; 0 takes any free one. [default: PORT]"),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Worker processes; 0 carries runs out in the server itself. [default: GW_WORKERS]",
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Start the server.

    API, worker and pages run in one process, unless worker processes are asked for.

    The database starts with it, unless DATABASE_URL names another. The terminal shows a
    link that signs you in once. Ctrl+C ends it after running work came to rest; a second
    Ctrl+C ends it at once, and the next start goes on with that work.
    """

    async def work() -> None:
        # Thousands of objects are made to stay while the product is loaded; looking through
        # them again and again for garbage is an eighth of the start. `serve` turns it on.
        gc.disable()
        from core.settings import load_settings
        from server.serve import serve as serve_until_told

        given = {"host": host, "port": port, "workers": workers, "data_dir": data_dir}
        await serve_until_told(load_settings(**given))

    run(work)


@app.command(
    epilog=examples(
        "graphwright worker",
        "DATABASE_URL=postgresql://… GW_ENCRYPTION_KEYS=… graphwright worker",
    )
)
def worker(
    data_dir: DataDir = None,
    with_parent: Annotated[
        bool, typer.Option("--with-parent", hidden=True, help="End with standard input.")
    ] = False,
) -> None:
    """Carry out runs, beside servers and other workers on the same database.

    On another machine it needs DATABASE_URL, the same encryption keys, the same extensions and
    the same folder of files. Ctrl+C ends it after running work came to rest.
    """

    async def work() -> None:
        gc.disable()
        from core.settings import load_settings
        from server.worker import work as work_until_told

        await work_until_told(load_settings(data_dir=data_dir), with_parent=with_parent)

    run(work)


@app.command(
    epilog=examples(
        "graphwright migrate",
        "DATABASE_URL=postgresql://… graphwright migrate",
    )
)
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database to this version.

    `serve` does it by itself.
    """

    async def work() -> None:
        from core.clock import SystemClock
        from core.settings import load_settings
        from server import opening
        from storage import migrate as migrations

        loaded = load_settings(data_dir=data_dir)
        opening.prepare_process(loaded)
        async with opening.database_url(loaded.settings, SystemClock()) as url:
            missing = await migrations.pending(url)
            await migrations.migrate(url)
        typer.echo(f"done: {', '.join(missing)}" if missing else "nothing to do")

    run(work)


@app.command(
    epilog=examples(
        "graphwright link --data-dir data",
    )
)
def link(data_dir: DataDir = None) -> None:
    """Print a new sign-in link.

    It is for the running server and works once, for 15 minutes.
    """

    async def work() -> None:
        from core.clock import SystemClock
        from core.settings import load_settings
        from server import opening, place

        loaded = load_settings(data_dir=data_dir)
        url = place.url_of_running(loaded.settings)
        async with opening.identity_alone(loaded, SystemClock()) as identity:
            typer.echo(f"{url}/login?token={await identity.new_login_link()}")

    run(work)


@app.command(
    epilog=examples(
        "graphwright doctor --data-dir data",
    )
)
def doctor(data_dir: DataDir = None) -> None:
    """Check everything and say the cure of what is wrong.

    Asks the configured model provider for its list of models, which costs nothing.
    Ends with 1 when something is down.
    """

    async def work() -> int:
        from server.doctor import examine

        return await examine(data_dir)

    run(work)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    typer.echo(version_of("graphwright"))


def main() -> None:
    """Run the command line."""
    app()
