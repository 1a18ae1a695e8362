"""What all commands share: the data folder's option, and how failures become exit codes."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

FAILED: Final = 1
CONFIGURATION: Final = 3
NOT_AVAILABLE: Final = 4
INTERRUPTED: Final = 130

_FILE: Final = re.compile(r"(?<=\.py): ")
"""Behind the file in the place of a fault."""

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the database and the files. [default: GW_DATA_DIR, or ./data]"),
]


def examples(*lines: str) -> str:
    """Return the end of a command's help; the first mark keeps its lines from being joined."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def run(work: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
    """Carry out one command and end the process with its code.

    Known failures become one or a few sentences on standard error, never a stack.
    """
    try:
        code = asyncio.run(work())
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = FAILED  # whoever read our output has had enough
    except BaseException as error:  # boundary: every end of a command becomes an exit code
        code = _explained(error)
        if code is None:
            raise
    if code:
        raise typer.Exit(code)


def _explained(error: BaseException) -> int | None:
    """Say what a known failure means and return its code; nothing for an unknown one."""
    from core.errors import ConfigError, GraphwrightError, Unavailable

    if isinstance(error, ConfigError):
        count = len(error.faults)
        said = "a fault" if count == 1 else f"{count} faults"
        say(f"The configuration has {said}; nothing was started.")
        # What stands in one file is told together.
        for fault in sorted(error.faults, key=lambda one: _FILE.split(one.where)[0]):
            say(f"\n  {fault.where}: {fault.what}\n    Cure: {fault.cure}")
        return CONFIGURATION
    if isinstance(error, GraphwrightError):
        cure = f"\n  Cure: {error.cure}" if error.cure else ""
        say(f"{error.message}{cure}")
        return NOT_AVAILABLE if isinstance(error, Unavailable) else FAILED
    return None


def say(text: str) -> None:
    """Tell the person at the terminal something that is not the command's result.

    Where nobody can be told any more, what the command does is not the worse for it.
    """
    # A command may be started without any standard error: Python has `None` in its place.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
