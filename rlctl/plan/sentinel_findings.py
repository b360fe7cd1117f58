"""Findings about a Sentinel fleet: the primary, its replicas, the Sentinels. Pure."""

from collections.abc import Iterator, Sequence

from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role
from rlctl.plan.desired import Desired
from rlctl.plan.finding import Finding, critical, degraded, listed, unlinked
from rlctl.plan.sentinel import believed_primary, named_primaries, observed_data_nodes, observed_sentinels
from rlctl.plan.tilt import is_in_tilt, remaining_s
from rlctl.plan.unproven import may_serve


def sentinel_findings(desired: Desired, observed: Observed) -> Iterator[Finding]:
    primary = believed_primary(desired, observed)
    nodes = observed_data_nodes(desired, observed)
    is_serving = primary.is_up and primary.role is Role.PRIMARY
    if not is_serving and not may_serve(desired, observed, primary):
        yield critical("no-primary", "fleet", f"{primary.name} should be the primary, but does not serve")
    others = [node for node in nodes if node.is_up and node.id != primary.id]
    rivals = [node.name for node in others if node.role is Role.PRIMARY]
    if rivals:
        text = f"writes are accepted by {listed(rivals)}, besides the primary {primary.name}"
        yield critical("two-primaries", "fleet", text)
    strays = [node for node in others if node.role is Role.REPLICA and node.follows != primary.id]
    for node in strays:
        yield degraded("wrong-role", node.name, f"{node.name} is not a replica of {primary.name}")
    yield from unlinked(node for node in others if node.role is Role.REPLICA)
    may_have_replica = any(node.link is ReplicationLink.UP and node.follows == primary.id for node in others) or any(
        may_serve(desired, observed, node) for node in nodes
    )
    if primary.is_up and not may_have_replica:
        yield degraded("no-replica", "fleet", f"no linked replica: if {primary.name} fails, all counts are lost")
    yield from _sentinels(desired, observed, primary)


def _sentinels(desired: Desired, observed: Observed, primary: NodeFacts) -> Iterator[Finding]:
    living = [node for node in observed_sentinels(desired, observed) if node.is_up and node.sentinel is not None]
    named = named_primaries(desired, observed)
    if len(named) > 1 and living:
        views = ", ".join(f"{address}:{port} ({count})" for (address, port), count in sorted(named.items()))
        yield critical("views-split", "fleet", f"sentinels disagree about the primary: {views}")
    count = desired.topology.sentinel.sentinels
    unasked = [node for node in observed_sentinels(desired, observed) if may_serve(desired, observed, node)]
    if len(living) + len(unasked) <= count // 2:
        yield critical("quorum-lost", "fleet", f"{len(living)} of {count} sentinels answer: no failover can happen")
    else:
        yield from _quorum_in_tilt(desired, living)
    for node in living:
        yield from _sentinel(desired, node, primary, living=len(living))


def _quorum_in_tilt(desired: Desired, living: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Yield a critical finding if too few Sentinels are out of TILT to replace a primary that fails now.

    The number of Sentinels out of TILT must reach the quorum, because a Sentinel in TILT never reports the primary as
    down. It need not reach the majority, because a Sentinel in TILT still votes for a leader.
    """
    tilted = [node for node in living if is_in_tilt(node)]
    acting, quorum = len(living) - len(tilted), desired.topology.sentinel.quorum
    if tilted and acting < quorum:
        text = (
            f"{acting} of {desired.topology.sentinel.sentinels} sentinels can act ({len(tilted)} in TILT) "
            f"and the quorum is {quorum}: no failover can happen for about {remaining_s(tilted)} s"
        )
        yield critical("sentinel-tilt", "fleet", text)


def _sentinel(desired: Desired, node: NodeFacts, primary: NodeFacts, *, living: int) -> Iterator[Finding]:
    view = node.sentinel
    if view is None or view.primary is None:
        yield degraded("not-watching", node.name, f"{node.name} watches no primary")
        return
    if view.failing_over:
        yield degraded("failing-over", node.name, f"{node.name} is replacing the primary")
    if is_in_tilt(node):
        # In TILT, only the failover state and the name of the primary are current. The rest dates from before the
        # stall, so it yields no findings.
        return
    if view.down:
        yield degraded("primary-doubted", node.name, f"{node.name} marks the primary as down")
    if not view.usable_quorum and living > desired.topology.sentinel.sentinels // 2:
        yield degraded("quorum-doubted", node.name, f"{node.name} sees no usable quorum")
    peers, wanted = len(view.peers), desired.topology.sentinel.sentinels - 1
    if peers != wanted:
        yield degraded("peers", node.name, f"{node.name} reaches {peers} other sentinels, not {wanted}")
    followers = [spec for spec in desired.specs.values() if not spec.is_sentinel and spec.name != primary.name]
    unknown = [spec.name for spec in followers if (spec.address, spec.port) not in view.replicas]
    if unknown:
        yield degraded("replicas-unreached", node.name, f"{node.name} does not reach the replicas {listed(unknown)}")
