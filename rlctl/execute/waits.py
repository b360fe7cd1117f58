"""Waiting for a fleet to come to rest: cheap questions first, the full reading once they are all answered well."""

import contextlib
from collections.abc import Callable, Mapping

from rlctl.errors import TimedOut
from rlctl.execute.fleet import Fleet
from rlctl.execute.formation import meeting
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.observe import parse
from rlctl.observe.model import Observed
from rlctl.plan.findings import INTENDED, Finding, assess
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import SLOTS, NodeName, NodeSpec, data_nodes

TELL_EVERY_S = 1.0
LOOK_EVERY_S = 0.02
INTRODUCE_EVERY_S = 0.5
READ_EVERY_S = 0.1


def wait_healthy(
    fleet: Fleet, stop: StopFlag, progress: Progress, *, timeout_s: float
) -> tuple[Observed, tuple[Finding, ...]]:
    """The last reading, and what was still found in it: nothing but what is intended, or the time was up."""
    deadline = fleet.clock.monotonic() + timeout_s
    progress.note("waiting until every node agrees")
    _settle(fleet, stop, timeout_s)
    told = fleet.clock.monotonic()
    while True:
        observed = fleet.observe()
        found = assess(fleet.desired(observed), observed)
        findings = tuple(finding for finding in found if finding.code not in INTENDED)
        now = fleet.clock.monotonic()
        if not findings or now >= deadline:
            return observed, findings
        if now - told >= TELL_EVERY_S:
            progress.note(f"waiting: {findings[0].text}" + (f" (+{len(findings) - 1} more)" if findings[1:] else ""))
            told = now
        stop.check()
        fleet.clock.sleep(READ_EVERY_S)


def wait_observed(
    fleet: Fleet,
    stop: StopFlag,
    progress: Progress,
    is_so: Callable[[Observed], bool],
    *,
    what: str,
    hint: str,
    timeout_s: float,
) -> None:
    """Until the full reading satisfies a condition; TimedOut says what was waited for."""
    progress.note(f"waiting: {what}")

    def ready() -> bool:
        stop.check()
        return is_so(fleet.observe())

    wait_until(ready, timeout_s=timeout_s, clock=fleet.clock, what=what, hint=hint, every_s=READ_EVERY_S)


def _settle(fleet: Fleet, stop: StopFlag, timeout_s: float) -> None:
    """Ask each node until it is content, and then no more; a node that never is shows in the full reading."""
    settling = _Settling(fleet)

    def all_content() -> bool:
        stop.check()
        return settling.is_over()

    try:
        wait_until(all_content, timeout_s=timeout_s, clock=fleet.clock, what="nodes at rest", every_s=LOOK_EVERY_S)
    except TimedOut:
        return


class _Settling:
    """The nodes that are not content yet; who lacks slots is introduced to their owners once more.

    A node learns slots only from their owner, whose greetings come by turns and take seconds. To meet again sends
    one at once.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._is_cluster = fleet.topology.kind is Kind.CLUSTER
        self._nodes = data_nodes(fleet.topology)
        self._waiting = list(self._nodes)
        self._primaries: set[NodeSpec] = set()
        self._introduced_at: dict[NodeName, float] = {}

    def is_over(self) -> bool:
        """Whether everybody was content when asked."""
        self._waiting = [spec for spec in self._waiting if not self._is_content(spec)]
        return not self._waiting

    def _is_content(self, spec: NodeSpec) -> bool:
        questions = [("INFO", "replication"), *([("CLUSTER", "INFO")] if self._is_cluster else [])]
        try:
            answers = self._fleet.connector.link(spec).pipeline(questions)
        except LinkFailure:
            return False
        if any(isinstance(answer, CommandFailed) for answer in answers):
            return False
        own = parse.info(str(answers[0]))
        if own.get("role") == "master":
            self._primaries.add(spec)
        elif own.get("master_link_status") != "up":
            return False
        return not self._is_cluster or self._knows_all(spec, parse.info(str(answers[1])))

    def _knows_all(self, spec: NodeSpec, view: Mapping[str, str]) -> bool:
        if view.get("cluster_known_nodes") != str(len(self._nodes)):
            return False
        if view.get("cluster_slots_assigned") != str(SLOTS):
            self._introduce_again(spec)
            return False
        return view.get("cluster_state") == "ok"

    def _introduce_again(self, spec: NodeSpec) -> None:
        now = self._fleet.clock.monotonic()
        if now - self._introduced_at.get(spec.name, -INTRODUCE_EVERY_S) < INTRODUCE_EVERY_S:
            return
        self._introduced_at[spec.name] = now
        for primary in self._primaries - {spec}:
            # A primary that cannot be reached now is not content itself, and is asked again.
            with contextlib.suppress(LinkFailure):
                self._fleet.connector.link(primary).pipeline([meeting(spec)])
