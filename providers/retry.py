"""When a failed call is made again: the only retry layer there is (MODEL-07, L19)."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from core import errors
from core.clock import Clock

T = TypeVar("T")

FIRST: Final = 0.5
"""Seconds before the second try; doubled for each further one."""
LONGEST: Final = 20.0


@dataclass(frozen=True, slots=True)
class Retries:
    """The policy of one connection."""

    most: int
    """Tries after the first one (OPENAI_MAX_RETRIES)."""
    max_wait: float
    """Longest single wait in seconds that a provider may ask for (GW_MODEL_MAX_WAIT)."""

    def wait(self, error: errors.ProviderError, tries: int) -> float | None:
        """Return the seconds to wait before the next try, or None to give up.

        Args:
            error: how the last try ended.
            tries: how many were made.
        """
        if not error.retryable or tries > self.most:
            return None
        backoff = min(FIRST * 2 ** (tries - 1), LONGEST)
        # Jitter spreads a fan-out that was refused at one moment.
        spread = random.uniform(0.5, 1.0) * backoff  # noqa: S311 - no secret
        if error.retry_after is None:
            return min(spread, self.max_wait)
        if error.retry_after > self.max_wait:
            return None
        return error.retry_after + spread / 2


async def with_retries(
    attempt: Callable[[], Awaitable[T]],
    retries: Retries,
    clock: Clock,
    *,
    model: str,
    is_watched: bool,
) -> T:
    """Ask until there is an answer, nothing more to try, or somebody has seen text of it.

    Args:
        attempt: asks once.
        retries: the policy.
        clock: for the waits between.
        model: its name, for the error.
        is_watched: whether text is shown as it comes; what was shown cannot be asked for anew.

    Raises:
        ProviderError: the last try's, complete.
    """
    tries = 0
    while True:
        tries += 1
        try:
            return await attempt()
        except errors.ProviderError as error:
            seen = is_watched and bool(error.partial_text or error.partial_thinking)
            wait = None if seen else retries.wait(error, tries)
            if wait is None:
                error.details.setdefault("model", model)
                raise _given_up(error, tries) from error.__cause__
        await clock.sleep(wait)


def _given_up(error: errors.ProviderError, tries: int) -> errors.ProviderError:
    """Complete the message of an error that ends the call."""
    if error.retryable and error.retry_after is not None:
        error.message += f"; try again after {error.retry_after:.0f} s"
    if tries > 1:
        error.message += f" ({tries} tries)"
    error.details["tries"] = tries
    error.args = (error.message,)
    return error
