"""Gives each test a desk of its own."""

import pytest

from tests.extensions.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
