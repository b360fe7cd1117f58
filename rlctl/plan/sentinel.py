"""The phases of bringing a Sentinel fleet to its topology. Pure."""

from collections import Counter
from collections.abc import Iterator

from rlctl.observe.model import Address, NodeFacts, Observed, Role, Saved
from rlctl.plan.cluster import Phase, loss
from rlctl.plan.desired import Desired
from rlctl.plan.steps import AwaitFailover, MonitorPrimary, Replicate, StartNode, StartSentinel, Step
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName, data_nodes, sentinel_nodes

ONLY_SHARD = 0


def revive(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start replicas behind the primary, and the primary itself unless it would come back empty."""
    primary = believed_primary(desired, state)
    for node in data(desired, state):
        if not node.is_dead:
            continue
        if node.id != primary.id:
            yield StartNode(node=node.name, follow=primary.name)
        elif not _must_wait(desired, state, node):
            yield StartNode(node=node.name)


def revive_sentinels(desired: Desired, state: Observed) -> Iterator[Step]:
    """Sentinels come before any wait for a failover: they are who decides it."""
    primary = believed_primary(desired, state)
    for node in sentinels(desired, state):
        if node.is_dead:
            yield StartSentinel(node=node.name, primary=primary.name)


def promote(desired: Desired, state: Observed) -> Iterator[Step]:
    """A dead primary without its data waits until the sentinels have named another one."""
    primary = believed_primary(desired, state)
    if primary.is_dead and _followers(desired, state, primary):
        yield AwaitFailover(node=primary.name, shard=ONLY_SHARD)


def revive_with_loss(desired: Desired, state: Observed) -> Iterator[Step]:
    """No replica is alive: the primary starts from what its disk holds."""
    primary = believed_primary(desired, state)
    if primary.is_dead:
        yield StartNode(node=primary.name, loss=loss(desired, primary, "the fleet"))


def monitor(desired: Desired, state: Observed) -> Iterator[Step]:
    """A sentinel that watches nothing is told whom to watch."""
    primary = believed_primary(desired, state)
    for node in sentinels(desired, state):
        if node.is_up and node.sentinel is not None and node.sentinel.primary is None:
            yield MonitorPrimary(node=node.name, primary=primary.name)


def replicate(desired: Desired, state: Observed) -> Iterator[Step]:
    """Every data node but the primary is its replica."""
    primary = believed_primary(desired, state)
    if not primary.is_up or primary.role is not Role.PRIMARY:
        return
    for node in data(desired, state):
        if node.is_up and primary.id not in {node.id, node.follows}:
            yield Replicate(node=node.name, primary=primary.name)


PHASES: tuple[Phase, ...] = (
    revive,
    revive_sentinels,
    promote,
    revive,
    revive_with_loss,
    revive,
    monitor,
    replicate,
)


def data(desired: Desired, state: Observed) -> tuple[NodeFacts, ...]:
    """The data nodes' facts."""
    return tuple(state.node(spec.name) for spec in data_nodes(desired.topology))


def sentinels(desired: Desired, state: Observed) -> tuple[NodeFacts, ...]:
    """The sentinels' facts."""
    return tuple(state.node(spec.name) for spec in sentinel_nodes(desired.topology))


def believed_primary(desired: Desired, state: Observed) -> NodeFacts:
    """Whom the sentinels name; else whom replicas follow; else who says so; else the first node."""
    named = _named_by_sentinels(desired, state)
    if named is not None:
        return named
    nodes = data(desired, state)
    followed = Counter(node.follows for node in nodes if node.is_up and node.follows)
    by_id = {node.id: node for node in nodes}
    if known := [node_id for node_id in followed if node_id in by_id]:
        return by_id[max(known, key=lambda node_id: (followed[node_id], node_id))]
    primaries = [node for node in nodes if node.is_up and node.role is Role.PRIMARY and node.keys]
    candidates = primaries or [node for node in nodes if node.disk.saved is Saved.LOG] or list(nodes)
    return candidates[0]


def named_primaries(desired: Desired, state: Observed) -> Counter[Address]:
    """How many sentinels name which address: the living ones, or the files of the dead."""
    return Counter(address for address, _epoch in _opinions(desired, state))


def _named_by_sentinels(desired: Desired, state: Observed) -> NodeFacts | None:
    opinions = _opinions(desired, state)
    if not opinions:
        return None
    votes = Counter(address for address, _epoch in opinions)
    address, _epoch = max(opinions, key=lambda opinion: (opinion[1], votes[opinion[0]], opinion[0]))
    return at(desired, state, address)


def at(desired: Desired, state: Observed, address: Address) -> NodeFacts | None:
    """The data node with this address, if the topology has one."""
    names: dict[Address, NodeName] = {(spec.address, spec.port): spec.name for spec in data_nodes(desired.topology)}
    return state.node(names[address]) if address in names else None


def _opinions(desired: Desired, state: Observed) -> list[tuple[Address, int]]:
    nodes = sentinels(desired, state)
    living = [
        (node.sentinel.primary, node.sentinel.epoch)
        for node in nodes
        if node.is_up and node.sentinel is not None and node.sentinel.primary is not None
    ]
    return living or [(node.disk.monitors, node.disk.monitor_epoch) for node in nodes if node.disk.monitors is not None]


def _must_wait(desired: Desired, state: Observed, node: NodeFacts) -> bool:
    """Whether this primary has been in use and has no log to come back with."""
    in_use = bool(_opinions(desired, state)) or bool(_followers(desired, state, node))
    has_log = desired.topology.persistence.mode is PersistenceMode.AOF and node.disk.saved is Saved.LOG
    return in_use and not has_log


def _followers(desired: Desired, state: Observed, primary: NodeFacts) -> tuple[NodeFacts, ...]:
    return tuple(node for node in data(desired, state) if node.is_up and node.follows == primary.id)
