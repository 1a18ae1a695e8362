"""Where settings come from: `.env`, the process, and what to do when the two disagree."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast, get_args

from dotenv import dotenv_values

from core.errors import ConfigError, Fault
from core.masking import hint, is_secret_name, mask

Priority = Literal["dotenv", "process", "none"]
"""`dotenv`: `.env` wins; `process`: the process wins; `none`: `.env` is not read."""

PRIORITY_NAMES: Final = ("GW_ENV_PRIORITY", "DEEP_AGENT_ENV_PRIORITY")
OURS: Final = "GW_"
"""Names that begin so are ours; an unknown one is a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One setting that `.env` and the process give different values. Values are masked."""

    name: str
    dotenv: str
    process: str
    used: Literal["dotenv", "process"]

    def __str__(self) -> str:
        """Return the sentence for the log and for `/health`."""
        return (
            f"{self.name} is {self.dotenv} in .env and {self.process} in the process; "
            f"{'.env' if self.used == 'dotenv' else 'the process'} counts (GW_ENV_PRIORITY)"
        )


@dataclass(frozen=True, slots=True)
class Unknown:
    """A `GW_…` name that is no setting."""

    name: str
    nearest: str | None

    def __str__(self) -> str:
        """Return the sentence for the log and for `/health`."""
        meant = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.name} is not a setting{meant}"


@dataclass(frozen=True, slots=True)
class Sources:
    """Both sources, and which of them counts. Empty values are as good as missing."""

    process: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    dotenv: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    priority: Priority = "dotenv"

    @classmethod
    def read(cls, env_file: Path | None, process: Mapping[str, str]) -> Sources:
        """Read `.env`, and from process or `.env` which of them counts.

        Raises:
            ConfigError: `.env` cannot be read, or the priority is none of the three.
        """
        given = _said(process)
        file = _read_dotenv(env_file) if env_file else {}
        priority = _first(given, PRIORITY_NAMES) or _first(file, PRIORITY_NAMES)
        name, text = priority or (PRIORITY_NAMES[0], "dotenv")
        if text not in get_args(Priority):
            what = f"{text!r} is not one of {', '.join(get_args(Priority))}."
            raise ConfigError([Fault(name, what, "Write one of the three, or leave it out.")])
        return cls(given, {} if text == "none" else file, cast("Priority", text))

    def find(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Return name and value of the first of these names that is given, by priority."""
        order = (self.dotenv, self.process)
        for source in order if self.priority == "dotenv" else reversed(order):
            if found := _first(source, names):
                return found
        return None

    def conflict(self, names: Iterable[str]) -> Conflict | None:
        """Return the disagreement over one setting, if there is any."""
        one, other = _first(self.dotenv, names), _first(self.process, names)
        if one is None or other is None or one[1] == other[1]:
            return None
        name = other[0] if one[0] == other[0] else f"{one[0]}/{other[0]}"
        secret = is_secret_name(one[0]) or is_secret_name(other[0])
        shown = [hint(value) if secret else mask(value) for value in (one[1], other[1])]
        used = "dotenv" if self.priority == "dotenv" else "process"
        return Conflict(name, shown[0], shown[1], used)

    def unknown(self, known: Iterable[str]) -> list[Unknown]:
        """Return the `GW_…` names that are no setting, each with the nearest that is one."""
        names = sorted(known)
        found: list[Unknown] = []
        for name in sorted({*self.process, *self.dotenv}):
            if name.upper().startswith(OURS) and name not in names:
                near = difflib.get_close_matches(name.upper(), names, n=1, cutoff=0.6)
                found.append(Unknown(name, near[0] if near else None))
        return found


# Helpers ----------------------------------------------------------------------------------


def _first(source: Mapping[str, str], names: Iterable[str]) -> tuple[str, str] | None:
    return next(((name, source[name]) for name in names if name in source), None)


def _read_dotenv(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what = f"cannot be read: {type(error).__name__}."
        cure = "Make it a readable file in UTF-8, or set GW_ENV_PRIORITY=none."
        raise ConfigError([Fault(path.name, what, cure)]) from None
    # Nothing is interpolated: a password may hold a dollar sign.
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return _said(values)


def _said(values: Mapping[str, str | None]) -> dict[str, str]:
    """Leave out what is empty; a line end behind a pasted key does no harm."""
    stripped = {name: (value or "").strip() for name, value in values.items()}
    return {name: value for name, value in stripped.items() if value}
