"""Wait until the primaries of a cluster can receive a replica's vote requests, and may vote for it.

A `CLUSTER FAILOVER` that gets too few votes stops the shard's writes for 5 s. There are two causes. A node's bus links
may come up a second later than its replication link; vote requests before then are lost. And a Redis primary votes at
most once for a shard in two node time-outs.
"""

from datetime import datetime

from rlctl.execute import journal
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.observe import parse
from rlctl.observe.info import ServerInfo
from rlctl.plan.failover import FailoverPlan, unlinked_nodes
from rlctl.system.clock import wait_until
from rlctl.system.redis_errors import UNCHANGED, named_errors
from rlctl.topology.nodes import all_nodes

# How long to wait for bus links. Nodes try to reconnect ten times a second, but a busy machine needs longer.
LINKED_S = 15.0
# Servers report the age of a connection in whole seconds, so the true age may be up to one second lower.
_AGE_STEP_S = 1.0


def await_votes(fleet: FleetSession, plan: FailoverPlan, progress: Progress, stop: StopFlag) -> None:
    """Wait until the primaries may vote for the shard again, then until all bus links of the replica are up."""
    window_s = 2 * fleet.topology.cluster.node_timeout_ms / 1000
    _await_window(fleet, plan, progress, stop, window_s)
    _await_links(fleet, plan, progress, stop)


def _await_window(fleet: FleetSession, plan: FailoverPlan, progress: Progress, stop: StopFlag, window_s: float) -> None:
    def is_over() -> bool:
        stop.check()
        return min(_since_promotion_s(fleet, plan), _since_failed_failover_s(fleet, plan)) >= window_s

    if is_over():
        return
    progress.note(f"waiting: primaries vote for shard {plan.shard} at most once in {window_s:g} s")
    wait_until(
        is_over,
        timeout_s=window_s + LINKED_S,
        clock=fleet.clock,
        what=f"{window_s:g} s since the last vote for shard {plan.shard}",
        hint=UNCHANGED,
        every_s=0.1,
    )


def _since_promotion_s(fleet: FleetSession, plan: FailoverPlan) -> float:
    """Return a lower bound of the seconds since the primary was promoted: the age of its oldest replica connection.

    The bound is infinite if the node has been a primary since its start.
    """
    link = fleet.connector.link(next(spec for spec in all_nodes(fleet.topology) if spec.name == plan.old))
    with named_errors(plan.old, UNCHANGED):
        own = ServerInfo(link.call("INFO", "server", "replication"))
        ages = parse.connection_ages(str(link.call("CLIENT", "LIST", "TYPE", "replica")))
    if own.second_offset == -1:
        return float("inf")
    return max((age - _AGE_STEP_S for age in ages), default=0.0)


def _since_failed_failover_s(fleet: FleetSession, plan: FailoverPlan) -> float:
    """Return the seconds since the last failed failover of this shard, in which primaries may have voted.

    Failovers that succeeded are covered by `_since_promotion_s`.
    """
    now = fleet.clock.now()
    failed = [
        (now - datetime.fromisoformat(operation.ended or operation.started)).total_seconds()
        for operation in journal.read(fleet.home.journal(fleet.topology.name))
        if operation.command == "failover" and operation.outcome != "done" and str(plan.shard) in operation.argv
    ]
    # Ignore entries from the future: if the clock was set back, they would make the wait endless.
    return min((since for since in failed if since >= 0), default=float("inf"))


def _await_links(fleet: FleetSession, plan: FailoverPlan, progress: Progress, stop: StopFlag) -> None:
    missing: list[str] = []

    def are_up() -> bool:
        stop.check()
        missing[:] = unlinked_nodes(fleet.observe(), plan.new)
        return not missing

    if are_up():
        return
    progress.note(f"waiting: {', '.join(missing)} must learn that {plan.new} is a replica of {plan.old}")
    wait_until(
        are_up,
        timeout_s=LINKED_S,
        clock=fleet.clock,
        what=f"bus links between {plan.new} and all other nodes, and its role in their tables",
        hint=f"{UNCHANGED}; CLUSTER NODES on each node shows which link is down and which primary {plan.new} follows",
    )
