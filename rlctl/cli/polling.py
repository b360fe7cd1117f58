"""Looking at a fleet: once, until all is well, or again and again."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import click

from rlctl.cli.app import App
from rlctl.errors import Exit, TimedOut
from rlctl.execute.session import FleetSession
from rlctl.system.clock import wait_until

WAIT_S = 60.0
WAIT_EVERY_S = 0.2
WATCH_EVERY_S = 1.0
Report = TypeVar("Report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(Generic[Report]):
    """What is read, when it is as `wanted`, how it is shown, and what it ends with."""

    read: Callable[[FleetSession], Report]
    wanted: str
    is_well: Callable[[Report], bool]
    show: Callable[[App, Report], None]
    exit_code: Callable[[Report], int]

    def ask(self, app: App, fleet: FleetSession, *, watch: bool, wait: bool) -> int:
        """Ask as often as it is wanted."""
        if watch:
            return self._watch(app, fleet)
        report = self._wait(app, fleet) if wait else self.read(fleet)
        self.show(app, report)
        return self.exit_code(report)

    def _wait(self, app: App, fleet: FleetSession) -> Report:
        """The last reading, well or not: how it stands then is the result."""
        report = self.read(fleet)

        def is_well() -> bool:
            nonlocal report
            if not self.is_well(report):
                report = self.read(fleet)
            return self.is_well(report)

        timeout_s = app.timeout(WAIT_S)
        try:
            wait_until(is_well, timeout_s=timeout_s, clock=fleet.clock, what=self.wanted, every_s=WAIT_EVERY_S)
        except TimedOut:
            app.output.note(f"not {self.wanted} after {timeout_s:g} s")
        return report

    def _watch(self, app: App, fleet: FleetSession) -> int:
        """Until Ctrl-C, which is no failure here; on a terminal each reading replaces the one before."""
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                report = self.read(fleet)
                if not app.output.as_json:
                    click.clear()
                self.show(app, report)
                fleet.clock.sleep(WATCH_EVERY_S)
        return Exit.INTERRUPTED
