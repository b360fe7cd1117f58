"""Waiting for a fleet to come to rest: cheap questions first, the full reading once they are all answered well."""

from collections.abc import Callable

from rlctl.errors import TimedOut
from rlctl.execute.fleet import Fleet
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.observe import parse
from rlctl.observe.model import Observed
from rlctl.plan.findings import Finding, assess
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

TELL_EVERY_S = 1.0
LOOK_EVERY_S = 0.02
READ_EVERY_S = 0.1


def wait_healthy(fleet: Fleet, stop: StopFlag, progress: Progress, *, timeout_s: float) -> tuple[Finding, ...]:
    """Nothing is left to find, or what was still found when the time was up."""
    deadline = fleet.clock.monotonic() + timeout_s
    progress.note("waiting until every node agrees")
    _settle(fleet, stop, timeout_s)
    told = fleet.clock.monotonic()
    while True:
        observed = fleet.observe()
        findings = assess(fleet.desired(observed), observed)
        now = fleet.clock.monotonic()
        if not findings or now >= deadline:
            return findings
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
    is_cluster = fleet.topology.kind is Kind.CLUSTER
    waiting = list(data_nodes(fleet.topology))
    members = len(waiting)

    def all_content() -> bool:
        stop.check()
        waiting[:] = [spec for spec in waiting if not _content(fleet, spec, members if is_cluster else None)]
        return not waiting

    try:
        wait_until(all_content, timeout_s=timeout_s, clock=fleet.clock, what="nodes at rest", every_s=LOOK_EVERY_S)
    except TimedOut:
        return


def _content(fleet: Fleet, spec: NodeSpec, members: int | None) -> bool:
    questions = [("INFO", "replication"), ("CLUSTER", "INFO")] if members else [("INFO", "replication")]
    try:
        answers = fleet.connector.link(spec).pipeline(questions)
    except LinkFailure:
        return False
    if any(isinstance(answer, CommandFailed) for answer in answers):
        return False
    own = parse.info(str(answers[0]))
    if own.get("role") == "slave" and own.get("master_link_status") != "up":
        return False
    if members is None:
        return True
    cluster = parse.info(str(answers[1]))
    return cluster.get("cluster_state") == "ok" and cluster.get("cluster_known_nodes") == str(members)
