"""Reads the pointer to the rules back from the primary and its replicas, until all agree or the time is over."""

from dataclasses import dataclass, replace

from rlctl.errors import TimedOut
from rlctl.execute.locking import primary_for_key
from rlctl.execute.session import FleetSession
from rlctl.limits.rule import POINTER_KEY, Version, revision_key
from rlctl.observe.model import Observed, Role
from rlctl.rules.store import expect_texts, revision_number
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

EVERY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """The revision on one node; `evidence` says why the revision is unknown.

    A `deposed` node was the primary before a failover and does not follow the new primary yet. Reports include
    a deposed node, but a change does not wait for its confirmation.
    """

    name: str
    role: str | None
    host: str
    port: int
    version: Version | None
    evidence: str = ""
    deposed: bool = False

    def to_json(self, wanted: Version | None) -> dict[str, object]:
        return {
            "name": self.name,
            "role": self.role,
            "host": self.host,
            "port": self.port,
            "reachable": not self.evidence,
            "evidence": self.evidence or None,
            "revision": self.version.revision if self.version else None,
            "digest": self.version.digest if self.version else None,
            "current": not self.evidence and self.version == wanted,
        }


def read_nodes(fleet: FleetSession, observed: Observed) -> tuple[NodeRules, ...]:
    """The revision on each node of the shard that stores the rules, even on nodes that are down; the primary first."""
    primary = primary_for_key(fleet, observed, POINTER_KEY)
    nodes = data_nodes(fleet.topology)
    if primary is None or fleet.topology.kind is Kind.SENTINEL:
        return tuple(_read_node(fleet, observed, spec) for spec in sorted(nodes, key=lambda spec: spec != primary))
    facts = observed.node(primary.name)
    by_id = {node.id: node.name for node in observed.nodes}
    # A replica reports its primary up to a second before the primary's cluster table lists the replica, so a node is a
    # follower if either of the two says so.
    following = {node.name for node in observed.up if node.role is Role.REPLICA and node.follows == facts.id}
    followers = {by_id.get(peer.id) for peer in facts.table if peer.follows == facts.id} | following
    # A deposed primary follows no node in the cluster table, and has lost its slots.
    bare = {by_id.get(peer.id) for peer in facts.table if peer.follows is None and not peer.slots} - following
    deposed = [spec for spec in nodes if spec.name in bare and spec.shard == primary.shard and spec != primary]
    return (
        *(_read_node(fleet, observed, spec) for spec in (primary, *(spec for spec in nodes if spec.name in followers))),
        *(_deposed_node(observed, spec) for spec in deposed),
    )


def _deposed_node(observed: Observed, spec: NodeSpec) -> NodeRules:
    """The entry of a deposed primary. rlctl does not read the node, because the node will discard its data."""
    facts = observed.node(spec.name)
    return NodeRules(
        name=spec.name,
        role=facts.role and facts.role.value,
        host=spec.address,
        port=spec.port,
        version=None,
        evidence=facts.evidence or "was the primary before a failover, and does not follow the new one yet",
        deposed=True,
    )


def read_back(fleet: FleetSession, observed: Observed, wanted: Version, timeout_s: float) -> tuple[NodeRules, ...]:
    """Read all nodes until each has the wanted revision; at the deadline, return the last answers."""
    found: list[tuple[NodeRules, ...]] = []

    def agreed() -> bool:
        found[:] = [read_nodes(fleet, observed)]
        return all(node.version == wanted or node.deposed for node in found[0])

    try:
        wait_until(agreed, timeout_s=timeout_s, clock=fleet.clock, what="the rules everywhere", every_s=EVERY_S)
    except TimedOut:
        return found[0]
    return found[0]


def _read_node(fleet: FleetSession, observed: Observed, spec: NodeSpec) -> NodeRules:
    link = fleet.connector.link(spec)
    role = observed.node(spec.name).role
    unread = NodeRules(name=spec.name, role=role and role.value, host=spec.address, port=spec.port, version=None)
    readonly = [("READONLY",)] if fleet.topology.kind is Kind.CLUSTER else []
    try:
        replies = link.pipeline([*readonly, ("HMGET", POINTER_KEY, "revision", "digest")])
        pointer = replies[-1]
        if isinstance(pointer, CommandFailed):
            return replace(unread, evidence=str(pointer))
        revision, digest = expect_texts(link, pointer, 2)
        if revision is None:
            return unread
        number = revision_number(revision)
        if number is None:
            return replace(unread, evidence=f"the pointer has revision {revision!r:.80}, which is not a number")
        version = Version(revision=number, digest=digest or "")
        if not link.call("EXISTS", revision_key(version.revision)):
            return replace(unread, evidence=f"the pointer has revision {version.revision}, which is missing")
    except (LinkFailure, CommandFailed) as failure:
        return replace(unread, evidence=str(failure))
    return replace(unread, version=version)
