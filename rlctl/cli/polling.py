"""Shows a report once, after it reaches a wanted state (--wait), or every second (--watch)."""

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
class PolledReport(Generic[Report]):
    """How to read a report, when to stop waiting, how to show it, and which exit code it gives."""

    read: Callable[[FleetSession], Report]
    wanted: str  # the state to wait for, as in "not healthy after 60 s"
    is_reached: Callable[[Report], bool]
    show: Callable[[App, Report], None]
    exit_code: Callable[[Report], int]

    def run(self, app: App, fleet: FleetSession, *, watch: bool, wait: bool) -> int:
        """Show the report once, after waiting for the wanted state if `wait`, or every second if `watch`."""
        if watch:
            return self._watch(app, fleet)
        report = self._wait(app, fleet) if wait else self.read(fleet)
        self.show(app, report)
        return self.exit_code(report)

    def _wait(self, app: App, fleet: FleetSession) -> Report:
        """Return the first report with the wanted state, or the last one read before the timeout."""
        report = self.read(fleet)

        def is_reached() -> bool:
            nonlocal report
            if not self.is_reached(report):
                report = self.read(fleet)
            return self.is_reached(report)

        timeout_s = app.timeout(WAIT_S)
        try:
            wait_until(is_reached, timeout_s=timeout_s, clock=fleet.clock, what=self.wanted, every_s=WAIT_EVERY_S)
        except TimedOut:
            app.output.note(f"not {self.wanted} after {timeout_s:g} s")
        return report

    def _watch(self, app: App, fleet: FleetSession) -> int:
        """Show a report every second until Ctrl-C. On a terminal, each report replaces the previous report."""
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                report = self.read(fleet)
                if not app.output.as_json:
                    click.clear()
                self.show(app, report)
                fleet.clock.sleep(WATCH_EVERY_S)
        return Exit.INTERRUPTED
