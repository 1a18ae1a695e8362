"""Fixtures for all tests. The code is in `tests/support/`."""

import signal

import pytest

pytest_plugins = [
    "tests.support.logs",
    "tests.support.own_extensions",
    "tests.support.postgres",
    "tests.support.scripted_fixture",
]

# A shell starts what it leaves in the background with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-seconds", type=float, default=20.0, help="how long the kill loop goes"
    )
    parser.addoption("--chaos-seed", type=int, default=0, help="what it does; 0 chooses")
