"""Findings about a Redis Cluster: slots, membership, shards. Pure."""

from collections.abc import Iterator

from rlctl.observe.model import Observed, ReplicationLink, Role
from rlctl.plan.desired import Desired
from rlctl.plan.finding import Finding, critical, degraded, listed, unlinked
from rlctl.plan.ownership import Shard, ownership, shards
from rlctl.plan.unproven import is_unproven, may_own_unknown_slots, may_serve
from rlctl.topology.nodes import NodeName


def cluster_findings(desired: Desired, observed: Observed) -> Iterator[Finding]:
    yield from _coverage(desired, observed)
    yield from _membership(observed)
    for shard in shards(desired.topology, observed):
        yield from _shard(desired, observed, shard)
    refusing = [node.name for node in observed.up if node.role is Role.PRIMARY and node.fleet_ok is False]
    if refusing:
        yield critical("cluster-fail", "fleet", f"cluster_state is fail on {listed(refusing)}: writes are refused")


def _coverage(desired: Desired, observed: Observed) -> Iterator[Finding]:
    owned = ownership(observed)
    nodes = observed.by_id()
    unowned = len(owned.unowned())
    if unowned and not may_own_unknown_slots(observed, observed.nodes):
        yield critical("slots-uncovered", "fleet", f"{unowned} slots have no owner")
    for node_id, slots in owned.claims.items():
        node = nodes.get(node_id)
        if not slots or (node is not None and (node.is_up or may_serve(desired, observed, node))):
            continue
        name = node_id[:8] if node is None else node.name
        is_silent = node is None or not is_unproven(node)
        why = "which does not answer" if is_silent else "which is not proven and which other nodes mark as failed"
        yield critical("slots-uncovered", _shard_name(desired, name), f"{len(slots)} slots belong to {name}, {why}")


def _shard_name(desired: Desired, name: str) -> str:
    spec = desired.specs.get(NodeName(name))
    return f"shard {spec.shard}" if spec else "fleet"


def _membership(observed: Observed) -> Iterator[Finding]:
    ids = observed.by_id()
    for node in observed.up:
        unknown = [other.name for other_id, other in ids.items() if other_id not in node.known]
        if unknown:
            yield degraded("not-joined", node.name, f"{node.name} does not know {listed(unknown)}")
        aliens = sorted(peer_id[:8] for peer_id in node.known - set(ids))
        if aliens:
            text = f"{node.name} knows {listed(aliens)}, not in the topology"
            yield degraded("unknown-member", node.name, text)
        doubted = [ids[peer.id].name for peer in node.table if peer.failed and peer.id in ids and ids[peer.id].is_up]
        if doubted:
            yield degraded(
                "views-split", node.name, f"{node.name} marks nodes as failed although they answer: {listed(doubted)}"
            )


def _shard(desired: Desired, observed: Observed, shard: Shard) -> Iterator[Finding]:
    subject = f"shard {shard.number}"
    owner = shard.owner
    live_rivals = [node.name for node in shard.rivals if node.is_up]
    if owner is None:
        if not may_own_unknown_slots(observed, shard.members):
            yield critical("no-primary", subject, f"{subject} has no node that owns slots")
        return
    if live_rivals:
        yield critical("two-primaries", subject, f"{owner.name} and {listed(live_rivals)} both own slots of {subject}")
    for node in shard.others:
        if node.is_up and not (node.role is Role.REPLICA and node.follows == owner.id):
            yield degraded("wrong-role", node.name, f"{node.name} is not a replica of {owner.name}")
    linked = [node for node in shard.live_replicas() if node.link is ReplicationLink.UP]
    yield from unlinked(node for node in shard.live_replicas())
    may_have_replica = bool(linked) or any(may_serve(desired, observed, node) for node in shard.others)
    if desired.topology.cluster.replicas and owner.is_up and not may_have_replica:
        yield degraded(
            "no-replica", subject, f"{subject} has no linked replica: if {owner.name} fails, its counts are lost"
        )
