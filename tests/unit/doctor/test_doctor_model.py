"""Checks: order and JSON."""

import json

from rlctl.doctor.model import Check, CheckSeverity, failed, passed, sort_checks, unread, warned


def test_sort_puts_the_most_urgent_first() -> None:
    checks = [
        passed("a", "x", "seen"),
        unread("a", "x", "seen", "look"),
        warned("b", "y", "seen", "do"),
        warned("b", "x", "seen", "do"),
        warned("a", "z", "seen", "do"),
        failed("z", "x", "seen", "do"),
    ]

    ordered = [(check.severity, check.name, check.subject) for check in sort_checks(checks)]

    assert ordered == [
        (CheckSeverity.CRITICAL, "z", "x"),
        (CheckSeverity.WARNING, "a", "z"),
        (CheckSeverity.WARNING, "b", "x"),
        (CheckSeverity.WARNING, "b", "y"),
        (CheckSeverity.UNKNOWN, "a", "x"),
        (CheckSeverity.OK, "a", "x"),
    ]


def test_to_json_has_stable_keys() -> None:
    check = Check(name="n", severity=CheckSeverity.WARNING, subject="s", evidence="e", fix="f", runbook="RB-01")

    assert json.loads(json.dumps(check.to_json())) == {
        "name": "n",
        "severity": "warning",
        "subject": "s",
        "evidence": "e",
        "fix": "f",
        "runbook": "RB-01",
    }
