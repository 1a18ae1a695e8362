"""The words with which a message may begin: `#skill:<name>` and `#session:<uuid>` (CHAT-03)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from core.errors import Invalid, NotFound
from core.ids import is_uuid

_PREFIX = re.compile(r"\s*#(skill|session):(\S*)")


@dataclass(frozen=True, slots=True)
class Prefixes:
    """A message without its prefixes, and what they asked for."""

    text: str
    session_id: str | None = None
    """The other session whose summary is brought in."""
    skill: str | None = None
    """Name of the skill to be used in this turn; whether it exists is not known here."""


def split_prefixes(message: str) -> Prefixes:
    """Take the prefixes off a message; they may stand in either order.

    Raises:
        Invalid: two skills or two sessions are asked for, or a skill without a name.
        NotFound: what stands behind `#session:` cannot be a session.
    """
    text = message
    found: dict[str, str] = {}
    while match := _PREFIX.match(text):
        kind, value = match.groups()
        if kind in found:
            other = "use one skill" if kind == "skill" else "bring in one other session"
            raise Invalid(f"A message can {other} only.")
        found[kind] = _skill(value) if kind == "skill" else _session(value)
        text = text[match.end() :]
    text = text.lstrip() if found else message
    return Prefixes(text, found.get("session"), found.get("skill"))


def _skill(value: str) -> str:
    if not value:
        raise Invalid("Write the skill's name right behind it: #skill:name.")
    return value


def _session(value: str) -> str:
    if not is_uuid(value):
        raise NotFound("There is no session of this id to bring in.")
    return value.lower()
