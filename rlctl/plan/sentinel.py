"""The phases that bring a Sentinel fleet to its topology. Pure."""

from collections import Counter
from collections.abc import Iterator

from rlctl.observe.model import Address, NodeFacts, Observed, Role, Saved
from rlctl.plan.cluster import Phase, has_more_data, loss, never_synced
from rlctl.plan.desired import Desired
from rlctl.plan.steps import AwaitFailover, MonitorPrimary, Replicate, StartNode, StartSentinel, Step
from rlctl.topology.model import PersistenceMode
from rlctl.topology.nodes import NodeName, data_nodes, sentinel_nodes

ONLY_SHARD = 0
# How long Sentinels may need to reach a server after it has started. They try to connect once a second.
RETURN_MS = 2_000


def start_nodes(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start dead nodes, except a primary that must stay down, and nodes that may lack that primary's data.

    Sentinel could promote a node that lacks the data, and the data would be lost.
    """
    primary = believed_primary(desired, state)
    must_wait = primary.is_dead and _must_wait(desired, state, primary)
    for node in observed_data_nodes(desired, state):
        if not node.is_dead:
            continue
        if node.id == primary.id and not must_wait:
            yield StartNode(node=node.name)
        # Sentinel may promote any replica that answers, even an empty one.
        elif node.id != primary.id and (not must_wait or has_more_data(desired, node, primary)):
            yield StartNode(node=node.name, follow=primary.name)


def start_sentinels(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start dead Sentinels before the plan waits for a failover, because Sentinels carry it out."""
    primary = believed_primary(desired, state)
    for node in observed_sentinels(desired, state):
        if node.is_dead:
            yield StartSentinel(node=node.name, primary=primary.name)


def promote(desired: Desired, state: Observed) -> Iterator[Step]:
    """Wait for the Sentinels to replace a dead primary that must not start, if a replica can take over."""
    primary = believed_primary(desired, state)
    if primary.is_dead and _has_successor(desired, state, primary):
        followers = _followers(desired, state, primary)
        are_all_revived = bool(followers) and all(never_synced(node) for node in followers)
        loss_text = f"writes that {primary.name} acknowledged and its replicas' disks do not hold are lost"
        yield AwaitFailover(
            node=primary.name,
            shard=ONLY_SHARD,
            loss=loss_text if are_all_revived else None,
            has_log=_has_log(desired, primary),
        )


def start_with_loss(desired: Desired, state: Observed) -> Iterator[Step]:
    """Start a dead primary that no replica can replace. Data that the primary's disk does not have is lost."""
    primary = believed_primary(desired, state)
    # A node that does not answer may still have the counts. The primary must not start yet: that node would then
    # replace its counts by a copy of the primary's data.
    has_silent_member = any(not node.is_up and not node.is_dead for node in observed_data_nodes(desired, state))
    if primary.is_dead and not has_silent_member and not _has_successor(desired, state, primary):
        yield StartNode(node=primary.name, loss=loss(desired, primary, "the fleet"))


def monitor(desired: Desired, state: Observed) -> Iterator[Step]:
    """Make each Sentinel that watches no primary watch the primary of this fleet."""
    primary = believed_primary(desired, state)
    for node in observed_sentinels(desired, state):
        if node.is_up and node.sentinel is not None and node.sentinel.primary is None:
            yield MonitorPrimary(node=node.name, primary=primary.name)


def replicate(desired: Desired, state: Observed) -> Iterator[Step]:
    """Make every data node, except the primary, a replica of the primary."""
    primary = believed_primary(desired, state)
    if not primary.is_up or primary.role is not Role.PRIMARY or _is_failing_over(desired, state):
        return
    for node in observed_data_nodes(desired, state):
        if node.is_up and primary.id not in {node.id, node.follows}:
            yield Replicate(node=node.name, primary=primary.name)


STARTING: tuple[Phase, ...] = (start_nodes, start_sentinels, promote, start_nodes, start_with_loss, start_nodes)
FORMING: tuple[Phase, ...] = (monitor, replicate)


def observed_data_nodes(desired: Desired, state: Observed) -> tuple[NodeFacts, ...]:
    """Return the data nodes in the topology's order."""
    return tuple(state.node(spec.name) for spec in data_nodes(desired.topology))


def observed_sentinels(desired: Desired, state: Observed) -> tuple[NodeFacts, ...]:
    """Return the Sentinels in the topology's order."""
    return tuple(state.node(spec.name) for spec in sentinel_nodes(desired.topology))


def believed_primary(desired: Desired, state: Observed) -> NodeFacts:
    """Return the node that rlctl takes for the fleet's primary.

    It is the first of these that exists: the node that Sentinels name with the highest epoch; the node that most
    replicas follow; a primary with keys; a node with an append-only file; a node with a snapshot; the first node.
    """
    named = _named_by_sentinels(desired, state)
    if named is not None:
        return named
    nodes = observed_data_nodes(desired, state)
    followed = Counter(node.follows for node in nodes if node.is_up and node.follows)
    by_id = {node.id: node for node in nodes if not (node.is_up and node.role is Role.REPLICA)}
    if known := [node_id for node_id in followed if node_id in by_id]:
        return by_id[max(known, key=lambda node_id: (followed[node_id], node_id))]
    primaries = [node for node in nodes if node.is_up and node.role is Role.PRIMARY and node.keys]
    with_log = [node for node in nodes if node.disk.saved is Saved.LOG]
    with_snapshot = [node for node in nodes if node.disk.saved is Saved.SNAPSHOT]
    return next(iter(primaries or with_log or with_snapshot or nodes))


def named_primaries(desired: Desired, state: Observed) -> Counter[Address]:
    """For each address, count the Sentinels that name it as the primary.

    If no live Sentinel names a primary, count what the Sentinels' configuration files name.
    """
    return Counter(address for address, _epoch in _opinions(desired, state))


def _named_by_sentinels(desired: Desired, state: Observed) -> NodeFacts | None:
    opinions = _opinions(desired, state)
    if not opinions:
        return None
    votes = Counter(address for address, _epoch in opinions)
    address, _epoch = max(opinions, key=lambda opinion: (opinion[1], votes[opinion[0]], opinion[0]))
    return node_at(desired, state, address)


def address_of(desired: Desired, node: NodeFacts) -> Address:
    """The address and port of a node in the topology."""
    spec = desired.specs[node.name]
    return spec.address, spec.port


def node_at(desired: Desired, state: Observed, address: Address) -> NodeFacts | None:
    """Return the data node at this address, or None if the topology has none there."""
    names: dict[Address, NodeName] = {(spec.address, spec.port): spec.name for spec in data_nodes(desired.topology)}
    return state.node(names[address]) if address in names else None


def _opinions(desired: Desired, state: Observed) -> list[tuple[Address, int]]:
    nodes = observed_sentinels(desired, state)
    living = [
        (node.sentinel.primary, node.sentinel.epoch)
        for node in nodes
        if node.is_up and node.sentinel is not None and node.sentinel.primary is not None
    ]
    return living or [(node.disk.monitors, node.disk.monitor_epoch) for node in nodes if node.disk.monitors is not None]


def _is_failing_over(desired: Desired, state: Observed) -> bool:
    """Whether a Sentinel is replacing the primary. During the replacement, two nodes may be primaries."""
    return any(node.sentinel is not None and node.sentinel.failing_over for node in observed_sentinels(desired, state))


def _is_being_replaced(desired: Desired, state: Observed, primary: NodeFacts) -> bool:
    """Whether the Sentinels are replacing the dead primary, or will begin before they could notice its restart.

    Every other live data node is a possible replacement, even a node that does not follow the primary: the node that
    the Sentinels have promoted no longer follows it.
    """
    has_other_node = any(node.is_up and node.id != primary.id for node in observed_data_nodes(desired, state))
    too_late_ms = desired.topology.sentinel.down_after_ms - RETURN_MS
    is_too_late = any(
        node.sentinel is not None and node.sentinel.usable_quorum and node.sentinel.silence_ms > too_late_ms
        for node in observed_sentinels(desired, state)
        if node.is_up
    )
    return has_other_node and primary.is_dead and (is_too_late or _is_failing_over(desired, state))


def _must_wait(desired: Desired, state: Observed, node: NodeFacts) -> bool:
    """Whether the dead primary must stay down.

    Either it was in use and has no append-only file to load, or the Sentinels are replacing it.
    """
    followers = _followers(desired, state, node)
    in_use = bool(_opinions(desired, state)) or bool(followers)
    # A primary that started during its replacement would accept writes that the failover then discards.
    return (in_use and not _has_log(desired, node)) or _is_being_replaced(desired, state, node)


def _has_log(desired: Desired, node: NodeFacts) -> bool:
    return desired.topology.persistence.mode is PersistenceMode.AOF and node.disk.saved is Saved.LOG


def _has_successor(desired: Desired, state: Observed, primary: NodeFacts) -> bool:
    """Whether a replica can take over, or the Sentinels are already replacing the primary.

    A replica can take over if it was linked until the primary died, or if it has data and the primary's disk has none.
    """
    followers = _followers(desired, state, primary)
    if _is_being_replaced(desired, state, primary):
        return True
    return any(not never_synced(node) or has_more_data(desired, node, primary) for node in followers)


def _followers(desired: Desired, state: Observed, primary: NodeFacts) -> tuple[NodeFacts, ...]:
    return tuple(node for node in observed_data_nodes(desired, state) if node.is_up and node.follows == primary.id)
