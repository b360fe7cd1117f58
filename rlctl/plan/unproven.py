"""Unproven nodes: servers that rlctl does not query, because nothing proves that they are the fleet's nodes. Pure."""

from collections.abc import Iterable

from rlctl.observe.model import NodeFacts, Observed, Presence
from rlctl.plan.desired import Desired
from rlctl.plan.sentinel import address_of
from rlctl.topology.model import Kind, TargetName, Topology

_TLS = "with `security: {tls: true}`, certificates prove the nodes"


def proof_hint(topology: Topology) -> str:
    """Return the hint for nodes that are not proven to belong to the fleet."""
    if topology.target is TargetName.HOSTS:
        return f"repair ssh and sudo to the host, or end the other process that listens there; {_TLS}"
    return f"end the process that listens there if it is not this fleet's; {_TLS}"


def is_unproven(node: NodeFacts) -> bool:
    """Whether a server answers at the node's address, but nothing proves that the server is this node.

    Such a server gets no password.
    """
    return node.presence is Presence.UNPROVEN


def describe_unproven(observed: Observed) -> str:
    """List the unproven nodes with the reason for each; empty if there are none."""
    return "; ".join(f"{node.name} is not proven ({node.evidence})" for node in observed.nodes if is_unproven(node))


def is_state_unknown(observed: Observed) -> bool:
    """Whether the state of the fleet cannot be read: some nodes are unproven, and no proven node answers."""
    return not observed.up and any(is_unproven(node) for node in observed.nodes)


def may_serve(desired: Desired, observed: Observed, node: NodeFacts) -> bool:
    """Whether the node may be serving: it is unproven, and no live node marks it as failed."""
    return is_unproven(node) and not _is_held_failed(desired, observed, node)


def proof_hint_or(desired: Desired, observed: Observed, nodes: Iterable[NodeFacts], otherwise: str) -> str:
    """Return the hint of `proof_hint` if one of these nodes is unproven and may be serving, else `otherwise`."""
    is_proof_missing = any(may_serve(desired, observed, node) for node in nodes)
    return proof_hint(desired.topology) if is_proof_missing else otherwise


def may_own_unknown_slots(observed: Observed, nodes: Iterable[NodeFacts]) -> bool:
    """Whether one of these nodes may own slots that no live node reports: it is unproven, and no live node knows it."""
    known = {node_id for node in observed.up for node_id in node.known}
    return any(is_unproven(node) and node.id not in known for node in nodes)


def _is_held_failed(desired: Desired, observed: Observed, node: NodeFacts) -> bool:
    if desired.topology.kind is Kind.CLUSTER:
        return any(peer.failed and peer.id == node.id for other in observed.up for peer in other.table)
    where = address_of(desired, node)
    views = (other.sentinel for other in observed.up if other.sentinel is not None)
    return any(view.down or view.failed if view.primary == where else where in view.silent for view in views)
