"""When a run has to end by itself (EXEC-09)."""

from __future__ import annotations

from typing import Any

from core.context import RunContext
from core.errors import ModelCallLimit, StepLimit, TimeBudget, TokenBudget


def check_budgets(ctx: RunContext, loop: dict[str, Any]) -> None:
    """Raise the named end of a run whose budget is used up."""
    limits = ctx.limits
    if limits.seconds and ctx.seconds_worked() >= limits.seconds:
        raise TimeBudget(details={"seconds": limits.seconds})
    if limits.tokens and loop["tokens"] >= limits.tokens:
        raise TokenBudget(details={"tokens": limits.tokens})
    if loop["steps"] >= limits.steps:
        raise StepLimit(details={"steps": limits.steps})
    if loop["model_calls"] >= limits.model_calls:
        raise ModelCallLimit(details={"model_calls": limits.model_calls})
    if ctx.delegation is not None:
        # What sub-runs use up counts for the run, and what the run uses up for them.
        ctx.delegation.check_budgets()
