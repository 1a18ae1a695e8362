"""What a request to a model may take, whatever extensions make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.errors import ContextOverflow, TokenBudget


def _uncounted(purpose: str, usage: dict[str, Any]) -> None:
    del purpose, usage


@dataclass(frozen=True, slots=True)
class Bounds:
    """The window and what is left of the run's budget."""

    window: int = 0
    """Tokens of the context window, output included; 0 = the model's own."""
    left: Callable[[], int | None] = lambda: None
    """Returns the tokens that the run may still use; None = no limit."""
    spent: Callable[[str, dict[str, Any]], None] = _uncounted
    """Counts an answer that was paid for and that a hook keeps from everybody."""

    def check(self, size: int, window: int) -> None:
        """Let no extension lead past the window or the run's budget.

        Args:
            size: about how many tokens the changed request takes.
            window: tokens of the model's own window.

        Raises:
            ContextOverflow: it does not fit the window.
            TokenBudget: the run may not use so many tokens any more.
        """
        most = self.window or window
        if size > most:
            raise ContextOverflow(f"Hooks made the request about {size} of {most} tokens long.")
        left = self.left()
        if left is not None and size > left:
            raise TokenBudget(details={"left": left, "asked": size})
