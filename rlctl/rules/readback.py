"""Reads the pointer back from the shard's primary and every replica, until all agree or time is up."""

from dataclasses import dataclass, replace

from rlctl.errors import TimedOut
from rlctl.execute.locking import keeper
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
    """What one node says is in force; `evidence` where it says nothing.

    A `deposed` one was the primary until a failover and does not follow yet: it is named, and nothing waits for it.
    """

    name: str
    role: str | None
    host: str
    port: int
    version: Version | None
    evidence: str = ""
    deposed: bool = False

    def to_json(self, wanted: Version | None) -> dict[str, object]:
        """As `rules status -o json` shows it."""
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
    """What each node of the shard that holds the rules says now, its primary first; those that are down too."""
    primary = keeper(fleet, observed, POINTER_KEY)
    nodes = data_nodes(fleet.topology)
    if primary is None or fleet.topology.kind is Kind.SENTINEL:
        return tuple(_ask(fleet, observed, spec) for spec in sorted(nodes, key=lambda spec: spec != primary))
    facts = observed.node(primary.name)
    by_id = {node.id: node.name for node in observed.nodes}
    # A node knows that it follows up to a second before its primary hears of it.
    following = {node.name for node in observed.up if node.role is Role.REPLICA and node.follows == facts.id}
    followers = {by_id.get(peer.id) for peer in facts.table if peer.follows == facts.id} | following
    # In the cluster's table it follows nobody, and the slots of its shard are another's by now.
    bare = {by_id.get(peer.id) for peer in facts.table if peer.follows is None and not peer.slots} - following
    deposed = [spec for spec in nodes if spec.name in bare and spec.shard == primary.shard and spec != primary]
    return (
        *(_ask(fleet, observed, spec) for spec in (primary, *(spec for spec in nodes if spec.name in followers))),
        *(_deposed_node(observed, spec) for spec in deposed),
    )


def _deposed_node(observed: Observed, spec: NodeSpec) -> NodeRules:
    """A deposed primary, which is not asked: it holds nothing that counts until it follows."""
    facts = observed.node(spec.name)
    return NodeRules(
        name=spec.name,
        role=facts.role and facts.role.value,
        host=spec.address,
        port=spec.port,
        version=None,
        evidence=facts.evidence or "was the primary before, and does not follow yet",
        deposed=True,
    )


def read_back(fleet: FleetSession, observed: Observed, wanted: Version, timeout_s: float) -> tuple[NodeRules, ...]:
    """Ask until all say the same; at the deadline what they say then."""
    found: list[tuple[NodeRules, ...]] = []

    def agreed() -> bool:
        found[:] = [read_nodes(fleet, observed)]
        return all(node.version == wanted or node.deposed for node in found[0])

    try:
        wait_until(agreed, timeout_s=timeout_s, clock=fleet.clock, what="the rules everywhere", every_s=EVERY_S)
    except TimedOut:
        return found[0]
    return found[0]


def _ask(fleet: FleetSession, observed: Observed, spec: NodeSpec) -> NodeRules:
    link = fleet.connector.link(spec)
    role = observed.node(spec.name).role
    nobody = NodeRules(name=spec.name, role=role and role.value, host=spec.address, port=spec.port, version=None)
    readonly = [("READONLY",)] if fleet.topology.kind is Kind.CLUSTER else []
    try:
        replies = link.pipeline([*readonly, ("HMGET", POINTER_KEY, "revision", "digest")])
        pointer = replies[-1]
        if isinstance(pointer, CommandFailed):
            return replace(nobody, evidence=str(pointer))
        revision, digest = expect_texts(link, pointer, 2)
        if revision is None:
            return nobody
        number = revision_number(revision)
        if number is None:
            return replace(nobody, evidence=f"the pointer names revision {revision!r:.80}, which is no number")
        version = Version(revision=number, digest=digest or "")
        if not link.call("EXISTS", revision_key(version.revision)):
            return replace(nobody, evidence=f"revision {version.revision} itself is missing")
    except (LinkFailure, CommandFailed) as failure:
        return replace(nobody, evidence=str(failure))
    return replace(nobody, version=version)
