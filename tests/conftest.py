"""Fixtures for all tests. The code is in `tests/support/`."""

import pytest

pytest_plugins = [
    "tests.support.logs",
    "tests.support.own_extensions",
    "tests.support.postgres",
    "tests.support.scripted_fixture",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-seconds", type=float, default=20.0, help="how long the kill loop goes"
    )
    parser.addoption("--chaos-seed", type=int, default=0, help="what it does; 0 chooses")
