"""Transport-free engine: admission, runs, worker, journal, interrupts; and its door for scripts.

    from runtime import RuntimeEnvironment, execute

Names of the door are loaded when they are asked for, so that the room's parts stay cheap to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from runtime.batch import BatchItem, BatchReport, execute_many
    from runtime.commands import Upload
    from runtime.execution import Admitted, Execution, admit, build_execution, execute
    from runtime.results import ExecutionResult
    from runtime.resuming import ResumeDecision, resume_value
    from runtime.script import RuntimeEnvironment

__all__ = [
    "Admitted",
    "BatchItem",
    "BatchReport",
    "Execution",
    "ExecutionResult",
    "ResumeDecision",
    "RuntimeEnvironment",
    "Upload",
    "admit",
    "build_execution",
    "execute",
    "execute_many",
    "resume_value",
]

_DOOR: Final = {
    "runtime.batch": ("BatchItem", "BatchReport", "execute_many"),
    "runtime.commands": ("Upload",),
    "runtime.execution": ("Admitted", "Execution", "admit", "build_execution", "execute"),
    "runtime.results": ("ExecutionResult",),
    "runtime.resuming": ("ResumeDecision", "resume_value"),
    "runtime.script": ("RuntimeEnvironment",),
}


def __getattr__(name: str) -> Any:
    """Load a name of the door at its first use (PEP 562)."""
    for module, names in _DOOR.items():
        if name in names:
            found = getattr(importlib.import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the door too."""
    return sorted({*globals(), *__all__})
