"""Wait until a fleet is healthy: poll each node with cheap commands first, then observe the whole fleet."""

import contextlib
from collections.abc import Callable, Iterable

from rlctl.errors import TimedOut
from rlctl.execute.formation import MEET_AGAIN_S, meet_command
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.observe.info import ClusterInfo, ServerInfo, cluster_info
from rlctl.observe.model import Observed, ReplicationLink, Role
from rlctl.plan.finding import Finding
from rlctl.plan.findings import NOT_FIXED_BY_DEPLOY, assess
from rlctl.plan.tilt import TILT_S, in_tilt
from rlctl.system.clock import wait_until
from rlctl.system.redis import Closed, CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import SLOTS, NodeName, NodeSpec, data_nodes

NOTE_EVERY_S = 1.0
POLL_EVERY_S = 0.02
MEET_FOR_SLOTS_EVERY_S = 0.5
READ_EVERY_S = 0.1
# A server whose port refuses connections for this long has ended.
ENDED_S = 1.0
# How long to wait for the end of TILT. A sentinel that is in TILT for longer than TILT_S keeps stalling.
TILT_WAIT_S = 2.0 * TILT_S


def wait_healthy(
    fleet: FleetSession,
    stop: StopFlag,
    progress: Progress,
    *,
    timeout_s: float,
    at_most_s: float = 0.0,
    is_hopeless: Callable[[Observed], bool] | None = None,
) -> tuple[Observed, tuple[Finding, ...]]:
    """Wait until the fleet has no findings that deploy can fix; return the last observation and the findings left.

    The wait also ends if `is_hopeless` returns True, or after `timeout_s`. While sentinels are in TILT, the limit moves
    to `timeout_s` after TILT ends, but at most to `at_most_s` after the start.
    """
    started = fleet.clock.monotonic()
    deadline, latest = started + timeout_s, started + at_most_s
    progress.note("waiting until all nodes agree")
    _await_rest(fleet, stop, timeout_s)
    noted = fleet.clock.monotonic()
    while True:
        observed = fleet.observe()
        found = assess(fleet.desired(observed), observed)
        judged = (finding for finding in found if finding.code not in NOT_FIXED_BY_DEPLOY)
        # Report TILT first: until it ends, sentinels repair nothing else.
        findings = tuple(sorted(judged, key=lambda finding: finding.code != "sentinel-tilt"))
        now = fleet.clock.monotonic()
        if in_tilt(observed):
            deadline = max(deadline, min(now + timeout_s, latest))
        if not findings or now >= deadline or (is_hopeless is not None and is_hopeless(observed)):
            return observed, findings
        if now - noted >= NOTE_EVERY_S:
            progress.note(f"waiting: {findings[0].text}" + (f" (+{len(findings) - 1} more)" if findings[1:] else ""))
            noted = now
        stop.check()
        fleet.clock.sleep(READ_EVERY_S)


def wait_observed(
    fleet: FleetSession,
    stop: StopFlag,
    progress: Progress,
    is_so: Callable[[Observed], bool],
    *,
    what: str,
    hint: str,
    timeout_s: float,
) -> None:
    """Observe the fleet until a condition holds; raises TimedOut with `what`."""
    progress.note(f"waiting: {what}")

    def ready() -> bool:
        stop.check()
        return is_so(fleet.observe())

    wait_until(ready, timeout_s=timeout_s, clock=fleet.clock, what=what, hint=hint, every_s=READ_EVERY_S)


def await_tilt_end(fleet: FleetSession, sentinel: NodeName, progress: Progress, stop: StopFlag) -> None:
    """Wait until a sentinel leaves TILT, because a sentinel in TILT accepts commands without acting on them."""

    def has_left_tilt(observed: Observed) -> bool:
        return sentinel not in {node.name for node in in_tilt(observed)}

    if has_left_tilt(fleet.observe()):
        return
    wait_observed(
        fleet,
        stop,
        progress,
        has_left_tilt,
        what=f"{sentinel} leaving TILT, {TILT_S} s after it stalled or its clock jumped",
        hint="nothing was changed; look for stalls and clock jumps on its host",
        timeout_s=TILT_WAIT_S,
    )


def _await_rest(fleet: FleetSession, stop: StopFlag, timeout_s: float) -> None:
    """Poll until all nodes are at rest, a server has ended, or the time is up."""
    nodes = _NodesAtRest(fleet)

    def is_over() -> bool:
        stop.check()
        return nodes.is_over() or nodes.has_ended_server()

    try:
        wait_until(is_over, timeout_s=timeout_s, clock=fleet.clock, what="all nodes at rest", every_s=POLL_EVERY_S)
    except TimedOut:
        return


class _NodesAtRest:
    """Polls nodes until each is at rest: linked, and in a cluster with all nodes and slots in its table.

    If a node's table lacks entries, other nodes are asked to MEET this node again, for two reasons. A node learns slots
    only from the pings of their owner, which may take seconds, and MEET triggers a ping at once. And servers never
    repeat a MEET that a stalled node missed.
    """

    def __init__(self, fleet: FleetSession) -> None:
        self._fleet = fleet
        self._is_cluster = fleet.topology.kind is Kind.CLUSTER
        self._nodes = data_nodes(fleet.topology)
        self._waiting = list(self._nodes)
        self._primaries: set[NodeSpec] = set()
        # Pretend an earlier MEET, so that the first poll may send MEET for missing slots. MEET for missing nodes must
        # still wait, because MEET_AGAIN_S is longer.
        before = fleet.clock.monotonic() - MEET_FOR_SLOTS_EVERY_S
        self._met_at = {spec.name: before for spec in self._nodes}
        self._closed_since: dict[NodeSpec, float] = {}

    def has_ended_server(self) -> bool:
        """Whether a node's port has refused connections for ENDED_S."""
        now = self._fleet.clock.monotonic()
        return any(now - since >= ENDED_S for since in self._closed_since.values())

    def is_over(self) -> bool:
        """Poll the remaining nodes; return whether every node has been at rest once."""
        self._waiting = [spec for spec in self._waiting if not self._is_at_rest(spec)]
        return not self._waiting

    def _is_at_rest(self, spec: NodeSpec) -> bool:
        questions = [("INFO", "replication"), *([("CLUSTER", "INFO")] if self._is_cluster else [])]
        try:
            answers = self._fleet.connector.link(spec).pipeline(questions)
        except Closed:
            self._closed_since.setdefault(spec, self._fleet.clock.monotonic())
            return False
        except LinkFailure:
            return False
        self._closed_since.pop(spec, None)
        if any(isinstance(answer, CommandFailed) for answer in answers):
            return False
        own = ServerInfo(answers[0])
        if own.role is Role.PRIMARY:
            self._primaries.add(spec)
        elif own.link is not ReplicationLink.UP:
            return False
        return not self._is_cluster or self._knows_all(spec, cluster_info(answers[1]))

    def _knows_all(self, spec: NodeSpec, view: ClusterInfo) -> bool:
        if view.known_nodes != len(self._nodes):
            if view.known_nodes < len(self._nodes):
                self._meet_again(spec, self._nodes, every_s=MEET_AGAIN_S)
            return False
        if view.slots_assigned != SLOTS:
            self._meet_again(spec, self._primaries, every_s=MEET_FOR_SLOTS_EVERY_S)
            return False
        return view.is_ok

    def _meet_again(self, spec: NodeSpec, to: Iterable[NodeSpec], *, every_s: float) -> None:
        now = self._fleet.clock.monotonic()
        if now - self._met_at[spec.name] < every_s:
            return
        self._met_at[spec.name] = now
        for other in set(to) - {spec}:
            # Ignore a node that does not answer: it is not at rest either, so it is polled again.
            with contextlib.suppress(LinkFailure):
                self._fleet.connector.link(other).pipeline([meet_command(spec)])
