"""Everything that the description allows, and much that it forbids, sent to every operation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.app import create_app
from api.services import Services
from core.clock import SystemClock
from core.health import Part
from core.settings import Settings
from tests.api.conftest import Settled
from tests.support.app import Served


@pytest.fixture(scope="session")
def fuzzer(settled: Settled) -> Iterator[requests.Session]:
    """A session with the key of the settled user."""
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {settled.key}"
        yield session


def described() -> list[schemathesis.APIOperation]:
    """Return every operation, from the description alone: nothing runs at collection."""

    async def no_health() -> list[Part]:
        return []

    bare: Any = None
    services = Services(
        Settings(), SystemClock(), *[bare] * 7, health=no_health, static=Path("-"), version="0"
    )
    schema = schemathesis.openapi.from_dict(create_app(services).openapi())
    return [result.ok() for result in schema.get_all_operations()]


POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE

CASES = [
    pytest.param(operation, mode, id=f"{operation.label} {mode.value}")
    for operation in described()
    for mode in (POSITIVE, NEGATIVE)
    # An operation without any input cannot be asked wrongly.
    if mode is POSITIVE or operation.query or operation.path_parameters or operation.body
]

SETTINGS = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.req("OPS-13", "CHAT-12", "P13")
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_no_operation_breaks_its_description(
    operation: schemathesis.APIOperation,
    mode: schemathesis.GenerationMode,
    house: Served,
    fuzzer: requests.Session,
    settled: Settled,
):
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    @SETTINGS
    def check(case: schemathesis.Case, use_known: bool) -> None:
        if mode is POSITIVE and use_known and case.method != "DELETE":
            for name in settled.ids.keys() & case.path_parameters.keys():
                case.path_parameters[name] = settled.ids[name]
        # Well formed is not yet acceptable: cursors, places and names can be of nothing.
        case.call_and_validate(
            base_url=house.url,
            session=fuzzer,
            timeout=20,
            excluded_checks=[positive_data_acceptance],
        )

    check()
