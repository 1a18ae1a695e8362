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


def split_prefixes(message: str) -> Prefixes:
    """Take the prefixes off a message.

    Raises:
        Invalid: a skill is asked for (there is no loader yet), or two sessions.
        NotFound: what stands behind `#session:` cannot be a session.
    """
    text = message
    session_id: str | None = None
    while match := _PREFIX.match(text):
        kind, value = match.groups()
        if kind == "skill":
            raise Invalid(
                "Skills are not available in this version; send the message without #skill:."
            )
        if session_id is not None:
            raise Invalid("A message can bring in one other session only.")
        if not is_uuid(value):
            raise NotFound("There is no session of this id to bring in.")
        session_id = value.lower()
        text = text[match.end() :]
    return Prefixes(text.lstrip() if session_id else message, session_id)
