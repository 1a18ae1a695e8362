"""Fixtures for all tests. The code is in `tests/support/`."""

pytest_plugins = [
    "tests.support.logs",
    "tests.support.own_extensions",
    "tests.support.postgres",
    "tests.support.scripted_fixture",
]
