"""New ids. Time-ordered UUIDs keep index pages warm; derived ones make repeats recognisable."""

from __future__ import annotations

import secrets
import uuid

from langchain_core.utils.uuid import uuid7

_NAMESPACE = uuid.UUID("6f1d9c1e-6a55-5a0f-8d39-0c5bb1f3a7d2")


def new_id() -> str:
    """Return a new time-ordered UUID as text (RFC 9562, version 7)."""
    return str(uuid7())


def derived_id(*parts: str) -> str:
    """Return the UUID that always belongs to these parts.

    A model turn that is repeated after a crash gets the id it had before, so a
    client can be told to drop the text it already saw.
    """
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))


def new_secret(prefix: str = "") -> str:
    """Return an unguessable text of 256 bits, safe in URLs and headers."""
    return prefix + secrets.token_urlsafe(32)


def is_uuid(text: str) -> bool:
    """Tell whether the text is a UUID in its usual written form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except (ValueError, AttributeError):
        return False
