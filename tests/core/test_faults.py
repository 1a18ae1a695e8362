"""Fault points do nothing outside tests, and exactly what the plan says inside."""

import pytest

from core import faults


@pytest.fixture(autouse=True)
def _disarm():
    yield
    faults.arm("")


def test_points_are_inert_without_a_plan():
    for point in faults.POINTS:
        faults.fault(point)


def test_plan_throws_at_the_named_passing_only():
    faults.arm("run.claimed=throw:2; tool.before=throw")
    faults.fault("run.claimed")
    with pytest.raises(faults.FaultInjected, match=r"run\.claimed"):
        faults.fault("run.claimed")
    faults.fault("run.claimed")
    with pytest.raises(faults.FaultInjected):
        faults.fault("tool.before")
    faults.fault("input.saved")


@pytest.mark.parametrize("plan", ["run.claimde=throw", "run.claimed=explode", "run.claimed"])
def test_plan_with_an_unknown_point_or_action_is_refused(plan):
    with pytest.raises(ValueError, match="unknown fault point"):
        faults.arm(plan)
