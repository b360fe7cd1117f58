"""Reads the pointer back from the shard's primary and every replica, until all agree or time is up."""

from dataclasses import dataclass, replace

from rlctl.errors import TimedOut
from rlctl.execute.fleet import Fleet
from rlctl.execute.locking import keeper
from rlctl.observe.model import Observed
from rlctl.rules.model import POINTER_KEY, Version, revision_key
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

EVERY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """What one node says is in force; `evidence` where it says nothing."""

    name: str
    role: str | None
    host: str
    port: int
    version: Version | None
    evidence: str = ""

    def to_json(self, wanted: Version | None) -> dict[str, object]:
        """As `rules status -o json` shows it."""
        return {
            "name": self.name,
            "role": self.role,
            "host": self.host,
            "port": self.port,
            "reachable": not self.evidence,
            "revision": self.version.revision if self.version else None,
            "digest": self.version.digest if self.version else None,
            "current": not self.evidence and self.version == wanted,
        }


def holders(fleet: Fleet, observed: Observed) -> tuple[NodeSpec, ...]:
    """The nodes of the shard that holds the rules, its primary first; those that are down too."""
    primary = keeper(fleet, observed, POINTER_KEY)
    nodes = data_nodes(fleet.topology)
    if primary is None or fleet.topology.kind is Kind.SENTINEL:
        return tuple(sorted(nodes, key=lambda spec: spec != primary)) if primary else tuple(nodes)
    facts = observed.node(primary.name)
    followers = {peer.id for peer in facts.table if peer.follows == facts.id}
    names = {node.name for node in observed.nodes if node.id in followers}
    return (primary, *(spec for spec in nodes if spec.name in names))


def read_nodes(fleet: Fleet, observed: Observed) -> tuple[NodeRules, ...]:
    """What each of them says now."""
    return tuple(_ask(fleet, observed, spec) for spec in holders(fleet, observed))


def read_back(fleet: Fleet, observed: Observed, wanted: Version, timeout_s: float) -> tuple[NodeRules, ...]:
    """Ask until all say the same; at the deadline what they say then."""
    found: list[tuple[NodeRules, ...]] = []

    def agreed() -> bool:
        found[:] = [read_nodes(fleet, observed)]
        return all(node.version == wanted for node in found[0])

    try:
        wait_until(agreed, timeout_s=timeout_s, clock=fleet.clock, what="the rules everywhere", every_s=EVERY_S)
    except TimedOut:
        return found[0]
    return found[0]


def _ask(fleet: Fleet, observed: Observed, spec: NodeSpec) -> NodeRules:
    link = fleet.connector.link(spec)
    role = observed.node(spec.name).role
    nobody = NodeRules(name=spec.name, role=role and role.value, host=spec.address, port=spec.port, version=None)
    readonly = [("READONLY",)] if fleet.topology.kind is Kind.CLUSTER else []
    try:
        replies = link.pipeline([*readonly, ("HMGET", POINTER_KEY, "revision", "digest")])
        pointer = replies[-1]
        if isinstance(pointer, CommandFailed):
            return replace(nobody, evidence=str(pointer))
        if pointer[0] is None:
            return nobody
        version = Version(revision=int(pointer[0]), digest=pointer[1] or "")
        if not link.call("EXISTS", revision_key(version.revision)):
            return replace(nobody, evidence=f"revision {version.revision} itself is missing")
    except (LinkFailure, CommandFailed) as failure:
        return replace(nobody, evidence=str(failure))
    return replace(nobody, version=version)
