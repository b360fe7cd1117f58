"""Gates: the checks that close each gate, and that the table names only existing checks."""

import pytest

from rlctl.doctor.gates import GATES, GatedOperation, closing
from rlctl.doctor.model import Check, CheckSeverity, failed, passed, unread, warned
from tests.unit.sayings import sayings


def findings() -> frozenset[str]:
    return sayings("plan/*finding*.py")


def test_the_names_are_found_in_the_source() -> None:
    assert {"node-down", "two-primaries", "users-drift"} <= findings()
    assert {"disk", "ports", "memory-used", "host-facts"} <= sayings("doctor/*.py")
    assert {"server", "scripts-run"} <= sayings("operations/doctor.py")


@pytest.mark.parametrize("operation", list(GatedOperation))
def test_a_gate_names_only_what_exists(operation: GatedOperation) -> None:
    assert set(GATES[operation]) <= findings() | sayings("doctor/*.py") | sayings("operations/doctor.py")
    assert set(GATES[operation].values()) <= {CheckSeverity.WARNING, CheckSeverity.CRITICAL}


def test_a_drill_wants_a_fleet_without_findings() -> None:
    assert findings() <= set(GATES[GatedOperation.DRILL])


@pytest.mark.parametrize(
    ("check", "closed"),
    [
        pytest.param(warned("node-down", "node-0", "down", "deploy"), {"failover", "drill", "release"}, id="down"),
        pytest.param(failed("two-primaries", "shard 0", "both", "wait"), set(GatedOperation), id="two primaries"),
        pytest.param(
            warned("node-fenced", "node-0", "fenced", "unfence"), set(GatedOperation) - {"deploy"}, id="fenced"
        ),
        pytest.param(warned("sentinel-tilt", "sentinel-0", "in TILT", "wait"), {"failover", "drill"}, id="TILT"),
        pytest.param(warned("users-drift", "node-0", "off", "deploy"), {"failover", "drill"}, id="users"),
        pytest.param(warned("memory-used", "node-0", "much", "more"), set(), id="much memory"),
        pytest.param(failed("memory-used", "node-0", "full", "more"), {"deploy", "drill", "release"}, id="no memory"),
        pytest.param(unread("disk", "this machine", "unread", "df"), set(), id="unread"),
        pytest.param(passed("ports", "limiter", "free"), set(), id="passed"),
        pytest.param(warned("swap-in-use", "this machine", "used", "free"), set(), id="of no gate"),
    ],
)
def test_what_closes_which_gate(check: Check, closed: set[str]) -> None:
    assert {operation for operation in GatedOperation if closing(operation, [check])} == closed
