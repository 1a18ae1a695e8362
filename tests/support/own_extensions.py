"""Whoever works here may have extensions of their own in `extensions/`; the tests pass all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.registry import Registry
from runtime import extending
from scripts.lint_house import ROOT, own_extensions


@pytest.fixture(scope="session", autouse=True)
def _own_extensions_are_left_out() -> Iterator[None]:
    """Leave those out that are no part of the project, wherever this process loads extensions."""
    own = own_extensions(ROOT)
    look_at = extending._look_at

    def look(registry: Registry, place: Path, found: dict[str, extending.Found]) -> None:
        if place not in own:
            look_at(registry, place, found)

    with pytest.MonkeyPatch.context() as patch:
        if own:
            patch.setattr(extending, "_look_at", look)
        yield
