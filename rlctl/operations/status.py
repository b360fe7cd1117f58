"""The status of a fleet: its nodes and findings, as `rlctl status` reports them."""

from dataclasses import dataclass

from rlctl.execute.session import FleetSession
from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.observe.parse import slot_count
from rlctl.plan.desired import Desired, missing_scripts
from rlctl.plan.finding import Finding, State
from rlctl.plan.findings import assess, state_of
from rlctl.plan.ownership import Ownership, ownership
from rlctl.plan.sentinel import believed_primary, node_at
from rlctl.plan.tilt import is_in_tilt
from rlctl.plan.unproven import is_unproven
from rlctl.plan.views import Views, views_of
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeId, NodeName, NodeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node; the role and the slots of a node that does not answer come from the other nodes."""

    id: NodeId
    name: NodeName
    role: Role
    shard: int | None
    host: str
    port: int
    slots: int
    link: str
    lag_bytes: int | None
    version: str | None
    alive: bool
    # A server answers at the node's address, but rlctl did not query it: nothing proves that the server is this node.
    unproven: bool
    scripts_missing: int
    view: str | None

    def to_json(self) -> dict[str, object]:
        """Return the JSON form for `status -o json`."""
        return {
            "id": self.id,
            "name": self.name,
            "role": self.role,
            "shard": self.shard,
            "host": self.host,
            "port": self.port,
            "slots": self.slots,
            "link": self.link,
            "lag_bytes": self.lag_bytes,
            "version": self.version,
            "alive": self.alive,
            "unproven": self.unproven,
            "scripts_missing": self.scripts_missing,
            "view": self.view,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    name: str
    kind: Kind
    state: State
    findings: tuple[Finding, ...]
    nodes: tuple[NodeStatus, ...]

    def to_json(self) -> dict[str, object]:
        """Return the JSON document of `status -o json`."""
        return {
            "schema": "rlctl.status/1",
            "name": self.name,
            "kind": self.kind,
            "state": self.state,
            "findings": [finding.to_json() for finding in self.findings],
            "nodes": [node.to_json() for node in self.nodes],
        }


def read_status(fleet: FleetSession) -> FleetStatus:
    """Observe the fleet and assess it."""
    observed = fleet.observe()
    return status_of(fleet.desired(observed), observed)


def read_views(fleet: FleetSession) -> Views:
    """Observe the fleet and compare every node's view of the others."""
    observed = fleet.observe()
    return views_of(fleet.desired(observed), observed)


def status_of(desired: Desired, observed: Observed) -> FleetStatus:
    """Assess an observation."""
    findings = assess(desired, observed)
    state = state_of(findings, observed)
    owned = ownership(observed)
    nodes = () if state is State.ABSENT else observed.nodes
    return FleetStatus(
        name=desired.topology.name,
        kind=desired.topology.kind,
        state=state,
        findings=findings,
        nodes=tuple(_node(desired, observed, owned, node) for node in nodes),
    )


def _node(desired: Desired, observed: Observed, owned: Ownership, node: NodeFacts) -> NodeStatus:
    spec = desired.specs[node.name]
    return NodeStatus(
        id=node.id,
        name=node.name,
        role=node.role or _role(desired, observed, owned, spec, node),
        shard=spec.shard,
        host=spec.address,
        port=spec.port,
        slots=slot_count(node.slots) if node.is_up else len(owned.claims.get(node.id, ())),
        link=node.link,
        lag_bytes=node.lag_bytes,
        version=node.version,
        alive=node.is_up,
        unproven=is_unproven(node),
        scripts_missing=_scripts_missing(desired, spec, node),
        view=_view(desired, observed, node),
    )


def _scripts_missing(desired: Desired, spec: NodeSpec, node: NodeFacts) -> int:
    """Count missing scripts; a data node that is down lacks all scripts, as a restart empties its cache."""
    if spec.is_sentinel:
        return 0
    return len(missing_scripts(desired, node)) if node.scripts is not None else len(desired.scripts)


def _role(desired: Desired, observed: Observed, owned: Ownership, spec: NodeSpec, node: NodeFacts) -> Role:
    if spec.is_sentinel:
        return Role.SENTINEL
    if desired.topology.kind is Kind.CLUSTER:
        return Role.PRIMARY if owned.claims.get(node.id) else Role.REPLICA
    return Role.PRIMARY if believed_primary(desired, observed).id == node.id else Role.REPLICA


def _view(desired: Desired, observed: Observed, node: NodeFacts) -> str | None:
    """Describe the node's own view: cluster state and size, or the primary that a sentinel names."""
    if not node.is_up:
        return None
    if node.sentinel is not None:
        primary = node.sentinel.primary and node_at(desired, observed, node.sentinel.primary)
        doubt = " (TILT)" if is_in_tilt(node) else " (down)" if node.sentinel.down else ""
        return f"{primary.name}{doubt}" if primary else "no primary"
    if node.fleet_ok is None:
        return None
    return f"{'ok' if node.fleet_ok else 'fail'}, knows {len(node.known)}"
