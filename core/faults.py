"""Named points where tests make things go wrong; inert unless a plan is set.

A plan is text such as `run.claimed=kill;event.saved=throw:2`: at the second
passing of `event.saved` an exception is raised. It is read from the setting
`GW_FAULTS`, which tests alone set.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Final, Literal, get_args

Action = Literal["kill", "throw"]

POINTS: Final = frozenset(
    {
        "run.claimed",
        "input.saved",
        "llm.reply.before_save",
        "tool.before",
        "tool.begun",
        "tool.done.before_journal",
        "tool.after.before_save",
        "event.saved.before_notify",
        "interrupt.saved",
        "resume.claimed",
        "title.before",
        "summary.before",
    }
)
"""Every point that code may name; an unknown one is a fault of the plan."""


class FaultInjected(Exception):
    """Raised at a point whose plan says `throw`."""


_plan: dict[str, tuple[Action, int]] = {}
_passed: Counter[str] = Counter()


def arm(plan: str) -> None:
    """Set the plan; an empty text disarms every point.

    Raises:
        ValueError: the plan names an unknown point or action.
    """
    _plan.clear()
    _passed.clear()
    for part in filter(None, (piece.strip() for piece in plan.split(";"))):
        point, _, rest = part.partition("=")
        action, _, count = rest.partition(":")
        if point not in POINTS or action not in get_args(Action):
            raise ValueError(f"unknown fault point or action: {part}")
        _plan[point] = (action, int(count or 1))  # type: ignore[assignment]


def fault(point: str) -> None:
    """Do what the plan says for this point, which is nothing outside tests."""
    if not _plan or point not in _plan:
        return
    _passed[point] += 1
    action, at = _plan[point]
    if _passed[point] != at:
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise FaultInjected(point)
