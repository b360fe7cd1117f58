"""The exit codes are a contract with scripts: help text, errors and this table agree."""

import re
from collections.abc import Iterator

import pytest

from rlctl.cli.main import EXIT_HELP
from rlctl.errors import Exit, LockHeld, RlctlError, StalePlan

TABLE = {
    0: "OK",
    1: "BUG",
    2: "USAGE",
    3: "INVALID_FILE",
    4: "DENIED",
    5: "NOT_FOUND",
    6: "UNREACHABLE",
    7: "TIMEOUT",
    8: "GUARD",
    9: "DECLINED",
    10: "CHANGES",
    11: "DEGRADED",
    12: "CRITICAL",
    13: "PARTIAL",
    14: "DRILL_FAILED",
    15: "CHECK_FAILED",
    16: "INCONCLUSIVE",
    129: "HUNG_UP",
    130: "INTERRUPTED",
    143: "TERMINATED",
}
ERRORS = {
    "usage": 2,
    "invalid-file": 3,
    "access-denied": 4,
    "not-found": 5,
    "unreachable": 6,
    "host-refused": 6,
    "resource-limit": 6,
    "timeout": 7,
    "refused": 8,
    "lock-held": 8,
    "stale-plan": 8,
    "declined": 9,
    "partly-done": 13,
    "check-failed": 15,
    "hung-up": 129,
    "interrupted": 130,
    "terminated": 143,
}


def family(root: type[RlctlError]) -> Iterator[type[RlctlError]]:
    for child in root.__subclasses__():
        yield child
        yield from family(child)


CLASSES = sorted(set(family(RlctlError)), key=lambda one: one.__name__)


def test_the_table() -> None:
    assert {code.value: code.name for code in Exit} == TABLE


def test_the_help_lists_every_code_once() -> None:
    listed = [int(number) for number in re.findall(r"(?:^|  |\()(\d+) [a-z]", EXIT_HELP, re.MULTILINE)]
    assert sorted(listed) == sorted(TABLE)


@pytest.mark.parametrize("error", CLASSES, ids=lambda one: one.__name__)
def test_every_error_has_a_code_of_its_own_and_an_exit_code(error: type[RlctlError]) -> None:
    assert "code" in vars(error)
    assert [one for one in CLASSES if one.code == error.code] == [error]
    assert re.fullmatch("[a-z]+(-[a-z]+)*", error.code)
    assert isinstance(error.exit_code, Exit)
    assert error.exit_code not in {Exit.OK, Exit.BUG}
    assert error.__doc__


@pytest.mark.parametrize(("code", "exit_code"), ERRORS.items(), ids=ERRORS)
def test_the_codes_that_programs_rely_on(code: str, exit_code: int) -> None:
    (error,) = [one for one in CLASSES if one.code == code]
    assert error.exit_code == exit_code


def test_the_root_is_a_bug() -> None:
    assert (RlctlError.code, RlctlError.exit_code) == ("bug", Exit.BUG)


def test_an_error_carries_message_and_hint() -> None:
    error = LockHeld("it is held", hint="wait")
    assert (error.message, error.hint, str(error)) == ("it is held", "wait", "it is held")
    assert StalePlan("it is stale").hint == ""
