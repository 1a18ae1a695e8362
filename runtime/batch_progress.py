"""How far a batch has come, told on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from core.clock import Clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

EVERY: Final = 10.0
"""Seconds between two lines where no bar can be drawn."""


class Progress:
    """Counts items and tells of them; whatever becomes of standard error, the batch goes on."""

    def __init__(self, total: int, clock: Clock, *, shown: bool) -> None:
        self._total, self._clock, self._shown = total, clock, shown
        self._began = self._told = clock.monotonic()
        self._bar: Bar | None = None
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        """Draw the bar where there is a terminal."""
        if self._shown and _terminal():
            self._bar = _bar()
            self._bar.add_task("batch", total=self._total, said="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the last state of the bar, or say it in a line."""
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self._bar.stop()
        elif self._shown:
            self._say()

    @property
    def done(self) -> int:
        """How many items are done."""
        return self.counts.total()

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return self._clock.monotonic() - self._began

    def step(self, status: str) -> None:
        """Count an item that is done."""
        self.counts[status] += 1
        if self._bar is not None:
            with contextlib.suppress(OSError, ValueError):
                self._bar.update(self._bar.task_ids[0], completed=self.done, said=self._others())
        elif self._shown and self._clock.monotonic() - self._told >= EVERY:
            self._told = self._clock.monotonic()
            self._say()

    # Helpers ----------------------------------------------------------------------------

    def _others(self) -> str:
        said = sorted(self.counts.items())
        return ", ".join(f"{count} {status}" for status, count in said if status != "success")

    def _say(self) -> None:
        others = f", {self._others()}" if self._others() else ""
        line = f"batch: {self.done} of {self._total}{others}, {self.seconds:.0f} s\n"
        # Whoever started it may have closed the other end, or gone away altogether.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line)
            sys.stderr.flush()


def _terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Made

    columns = (
        TextColumn("batch"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[said]}", markup=False),
    )
    return Made(*columns, console=Console(file=sys.stderr), transient=False)
