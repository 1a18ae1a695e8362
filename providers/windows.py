"""How long requests may be: what is known of common models, a cautious guess for the others."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = 32_768
"""Tokens assumed for a model that is not in the table; CONTEXT_LIMIT says the real figure."""

_LARGEST_RESERVE: Final = 8_192

_WINDOWS: Final = (
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("gpt-5", 400_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("deepseek", 128_000),
    ("qwen3", 131_072),
    ("qwen-plus", 131_072),
    ("qwen-max", 32_768),
    ("glm-4", 128_000),
    ("kimi", 131_072),
    ("claude", 200_000),
    ("gemini", 1_048_576),
)
"""By how the name begins, after a vendor's prefix such as `openai/`; the first that fits counts."""


def window_of(model: str, declared: int = 0) -> tuple[int, bool]:
    """Return the context window in tokens and whether it is known rather than guessed.

    Args:
        model: the provider's name of the model.
        declared: what the settings say; 0 = nothing.
    """
    if declared:
        return declared, True
    name = model.rsplit("/", 1)[-1].lower()
    for beginning, window in _WINDOWS:
        if name.startswith(beginning):
            return window, True
    return UNKNOWN, False


def reserve_of(window: int) -> int:
    """Return the tokens kept free for the answer: a quarter of small windows, never a lot."""
    return min(_LARGEST_RESERVE, window // 4)
