"""`graphwright batch`: many runs at once, from one JSONL file into another."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from server.cli_base import FAILED, DataDir, examples, run, say

if TYPE_CHECKING:
    from runtime import BatchReport

WAITING: Final = 5


def batch(
    inputs: Annotated[
        Path,
        typer.Argument(
            help="JSONL: each line a text, or an object with message and, if you like, key, "
            "agent, session_id, model, mode; - reads standard input."
        ),
    ],
    out: Annotated[Path, typer.Option(help="File of results; a second start adds to it.")],
    agent: Annotated[str | None, typer.Option(help="Agent of items that name none.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose runs they are. [default: the local owner]")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Items at once. [default: GW_WORKER_CONCURRENCY]"),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the batch: under another one all is done anew.")
    ] = "",
    steps: Annotated[
        int | None, typer.Option("--recursion-limit", min=1, help="Steps that each run may take.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Do again what failed in an earlier start.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not tell how far it is.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Run an agent on every line of a file.

    Works beside a running server or without one. Every item is done once: start the same
    command again after a crash, a kill or Ctrl+C, and it goes on where it was. Results are added to
    the file as items are done, in no other order; the last line of a key counts. Ends with 1
    when an item failed, with 5 when one waits for an answer.
    """
    options = {"agent": agent, "user_name": user, "name": name, "out": out,
               "retry_failed": retry_failed, "progress": not quiet}  # fmt: skip
    if steps is not None:
        options["graph_config"] = {"recursion_limit": steps}
    given = {key: value for key, value in options.items() if value is not None}
    run(lambda: _work(inputs, data_dir, concurrency, given))


EXAMPLES = examples(
    "graphwright batch inputs.jsonl --out out.jsonl",
    "graphwright batch inputs.jsonl --agent assistant --out out.jsonl --concurrency 20",
)


async def _work(
    inputs: Path, data_dir: Path | None, concurrency: int | None, options: dict[str, Any]
) -> int:
    from runtime import RuntimeEnvironment, execute_many
    from runtime.batch_items import checked, lines_of

    data = await asyncio.to_thread(_read, inputs, options["out"])
    # Everything that is wrong with the file is said before the database is even looked for.
    items = checked(lines_of(data), {"agent": options.get("agent")})
    settings = {"data_dir": data_dir} if data_dir is not None else {}
    async with RuntimeEnvironment(settings=settings, concurrency=concurrency):
        try:
            report = await execute_many(items, **options)
        except asyncio.CancelledError:
            say("Interrupted; what was done is kept. The same command goes on from here.")
            raise
    say(_summary(report))
    return _code(report)


def _read(inputs: Path, out: Path) -> bytes:
    if str(inputs) == "-":
        return sys.stdin.buffer.read()
    try:
        if out.exists() and out.samefile(inputs):
            raise typer.BadParameter("--out is the file of inputs itself")
        return inputs.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{inputs} cannot be read: {error.strerror}") from error


def _summary(report: BatchReport) -> str:
    counts = ", ".join(f"{count} {status}" for status, count in sorted(report.counts.items()))
    before = f" ({report.skipped} done before)" if report.skipped else ""
    items = "1 item" if len(report.results) == 1 else f"{len(report.results)} items"
    lines = [f"{items}: {counts}{before}, {report.seconds:.1f} s"]
    if report.counts["failed"] or report.counts["interrupted"]:
        lines.append("--retry-failed does the failed ones again.")
    if report.counts["waiting_input"]:
        lines.append("Some wait for an answer: give it in the chat, then start this again.")
    return "\n".join(lines)


def _code(report: BatchReport) -> int:
    good = report.counts["success"] + report.counts["waiting_input"]
    if good < len(report.results):
        return FAILED
    return WAITING if report.counts["waiting_input"] else 0
