"""Repeat drills and runbook rehearsals that a stalled machine made inconclusive, and count them. A pytest plugin.

Each worker attaches its attempts to the reports of its tests; the process that prints them adds all of them up.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

TRIES = 3
# One rerun is always allowed, because a single file has too few drills for a percentage.
MOST_PERCENT = 3.0
_PROPERTY = "attempts"

Result = TypeVar("Result")


@dataclass(slots=True)
class Attempts:
    """The number of drills and rehearsals, and those that were repeated, with the reason."""

    first: int = 0
    again: list[str] = field(default_factory=list)

    @property
    def is_too_many(self) -> bool:
        return len(self.again) > max(1.0, self.first * MOST_PERCENT / 100)

    def add(self, other: "Attempts") -> None:
        self.first += other.first
        self.again += other.again

    def lines(self) -> Iterator[str]:
        allowed = f"at most one, or {MOST_PERCENT:g} %, may be needed"
        yield f"{len(self.again)} reruns of {self.first} drills and trials; {allowed}"
        yield from self.again


_not_reported = Attempts()
_all = Attempts()


def until_undisturbed(attempt: Callable[[], Result], what: str, disturbance: Callable[[Result], str | None]) -> Result:
    """The first undisturbed result, or the last of TRIES."""
    _not_reported.first += 1
    for _ in range(TRIES - 1):
        result = attempt()
        reason = disturbance(result)
        if reason is None:
            return result
        _not_reported.again.append(f"{what}: {reason}")
    return attempt()


def count(first: int, again: list[str]) -> None:
    """Add the repetitions that a command of rlctl did and reported by itself."""
    _not_reported.add(Attempts(first, again))


def take() -> Attempts:
    """The attempts since the last call."""
    taken = Attempts()
    taken.add(_not_reported)
    _not_reported.first, _not_reported.again = 0, []
    return taken


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the attempts of this phase of a test to its report."""
    report = yield
    taken = take()
    if taken.first:
        report.user_properties.append((_PROPERTY, [taken.first, [f"{item.nodeid}: {one}" for one in taken.again]]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties:
        if name == _PROPERTY:
            _all.add(Attempts(*value))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    is_worker = hasattr(session.config, "workerinput")
    if not is_worker and _all.is_too_many and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _all.first:
        terminalreporter.section("reruns")
        for line in _all.lines():
            terminalreporter.line(line, red=_all.is_too_many)
