"""Remembers for a moment who a credential belongs to, so that not every request asks.

A revocation in another process is seen once the entry is too old; with the check that open
streams make every three seconds that stays under the five seconds of Z02.
"""

from __future__ import annotations

from typing import Final

from core.clock import Clock
from core.principal import Principal
from identity.credentials import digest

SECONDS: Final = 1.5
"""How long an answer counts."""

_MOST: Final = 10_000


class PrincipalCache:
    """Principals by the digest of their credential; the credential itself is not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Principal]] = {}

    def get(self, credential: str) -> Principal | None:
        """Return who this was a moment ago."""
        entry = self._entries.get(digest(credential))
        if entry is None or entry[0] <= self._clock.monotonic():
            return None
        return entry[1]

    def put(self, credential: str, principal: Principal) -> None:
        """Remember the answer of the database."""
        if len(self._entries) >= _MOST:
            self._entries.clear()
        self._entries[digest(credential)] = (self._clock.monotonic() + SECONDS, principal)

    def clear(self) -> None:
        """Forget everything; after a revocation in this process it counts at once."""
        self._entries.clear()
