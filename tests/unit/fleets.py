"""Builders of observed fleets as values: new fleets, formed fleets, and damaged ones."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from rlctl.observe.model import NodeFacts, Observed, OnDisk, Peer, Presence, ReplicationLink, Role, Saved, SentinelView
from rlctl.plan.desired import Desired
from rlctl.render.redis_conf import tunables
from rlctl.render.sentinel_conf import sentinel_options
from rlctl.topology.model import (
    ClusterShape,
    Kind,
    Persistence,
    PersistenceMode,
    SentinelShape,
    TargetName,
    Topology,
)
from rlctl.topology.nodes import NodeId, NodeName, NodeSpec, all_nodes, node_id, slot_range

FLEET_ID = "f" * 40
REVISION = "revision-of-this-release"
VERSION = "7.0.15"
# The files of a node in each mode once it has run for a while.
SAVED = {
    PersistenceMode.AOF: Saved.LOG,
    PersistenceMode.RDB: Saved.SNAPSHOT,
    PersistenceMode.NONE: Saved.NOTHING,
}
Damage = Callable[[Observed], Observed]


def cluster(shards: int = 3, replicas: int = 1, mode: PersistenceMode = PersistenceMode.AOF) -> Topology:
    return Topology(
        name="limiter",
        kind=Kind.CLUSTER,
        target=TargetName.LOCAL,
        cluster=ClusterShape(shards=shards, replicas=replicas),
        persistence=Persistence(mode=mode),
    )


def watched(replicas: int = 2, sentinels: int = 3, mode: PersistenceMode = PersistenceMode.AOF) -> Topology:
    return Topology(
        name="limiter",
        kind=Kind.SENTINEL,
        target=TargetName.LOCAL,
        sentinel=SentinelShape(replicas=replicas, sentinels=sentinels, quorum=sentinels // 2 + 1),
        persistence=Persistence(mode=mode),
    )


def desired_of(topology: Topology) -> Desired:
    return Desired(topology=topology, revisions={spec.name: REVISION for spec in all_nodes(topology)})


def name(text: str) -> NodeName:
    return NodeName(text)


def id_of(text: str) -> NodeId:
    return node_id(FLEET_ID, NodeName(text))


def fresh(topology: Topology) -> Observed:
    """Nothing is there."""
    nodes = (NodeFacts(name=spec.name, id=id_of(spec.name), presence=Presence.ABSENT) for spec in all_nodes(topology))
    return Observed(nodes=tuple(nodes))


def healthy(topology: Topology) -> Observed:
    """A healthy fleet that matches the topology."""
    if topology.kind is Kind.CLUSTER:
        table = tuple(_line(topology, spec) for spec in all_nodes(topology))
        nodes = tuple(_member(topology, spec, table) for spec in all_nodes(topology))
        return Observed(nodes=nodes)
    return Observed(nodes=tuple(_watched_node(topology, spec) for spec in all_nodes(topology)))


def changed(state: Observed, node: str, **facts: object) -> Observed:
    """The fleet with other facts of one node."""
    return _with(state, node, lambda own: replace(own, **facts))  # type: ignore[arg-type]


def killed(
    state: Observed, node: str, saved: Saved | None = None, mode: PersistenceMode = PersistenceMode.AOF
) -> Observed:
    """The fleet after the death of a process; its files remain."""
    own = state.node(name(node))
    view = own.sentinel
    disk = OnDisk(
        saved=Saved.NOTHING if view else SAVED[mode] if saved is None else saved,
        table=own.table if own.is_up else own.disk.table,
        own_id=own.id,
        monitors=view.primary if view else None,
        monitor_epoch=view.epoch if view else 0,
    )
    return _with(_down_links(state, own.id), node, lambda _own: _dead(own, disk))


def wiped(state: Observed, node: str) -> Observed:
    """The fleet after the loss of a process and its files."""
    own = state.node(name(node))
    return _with(_down_links(state, own.id), node, lambda _own: _dead(own, OnDisk()))


def reset(state: Observed, node: str) -> Observed:
    """The fleet with a cluster node that runs and knows only itself."""
    own = state.node(name(node))
    line = next(peer for peer in own.table if peer.id == own.id)
    alone = replace(line, slots=(), epoch=0, role=Role.PRIMARY, follows=None)
    facts = {"role": Role.PRIMARY, "follows": None, "link": ReplicationLink.NONE, "slots": (), "epoch": 0, "keys": 0}
    return changed(state, node, table=(alone,), **facts)


def hung(state: Observed, node: str, presence: Presence = Presence.HUNG) -> Observed:
    """The fleet with a process that runs and does not answer."""
    own = state.node(name(node))
    silent = NodeFacts(
        name=own.name, id=own.id, presence=presence, evidence="no answer", disk=OnDisk(running=True, own_id=own.id)
    )
    return _with(state, node, lambda _own: silent)


def promoted(state: Observed, node: str) -> Observed:
    """The fleet after a failover that every live node and sentinel has seen."""
    winner = state.node(name(node))
    old = state.by_id()[winner.follows or winner.id]
    line = next((peer for peer in winner.table if peer.id == old.id), None)
    slots = old.slots or (line.slots if line else ())
    lines = [peer.epoch for one in state.nodes for peer in (*one.table, *one.disk.table)]
    views = [one.sentinel.epoch for one in state.nodes if one.sentinel]
    epoch = 1 + max(*lines, *views, *(one.epoch for one in state.nodes))
    address = _address(winner, state)

    def after(one: NodeFacts) -> NodeFacts:
        one = replace(one, table=tuple(_told(peer, winner, old, slots, epoch) for peer in one.table))
        if one.id == winner.id:
            return replace(one, role=Role.PRIMARY, follows=None, link=ReplicationLink.NONE, slots=slots, epoch=epoch)
        if one.sentinel is not None:
            return replace(one, sentinel=replace(one.sentinel, primary=address, epoch=epoch))
        if one.is_up and one.follows == old.id:
            return replace(one, follows=winner.id)
        if one.id == old.id and one.is_up:
            return replace(one, role=Role.REPLICA, follows=winner.id, link=ReplicationLink.UP, slots=())
        return one

    return Observed(nodes=tuple(after(one) for one in state.nodes))


def unmet(state: Observed, first: str, second: str) -> Observed:
    """The fleet with two nodes that do not know each other."""
    one, two = state.node(name(first)), state.node(name(second))
    state = changed(state, first, table=tuple(peer for peer in one.table if peer.id != two.id))
    return changed(state, second, table=tuple(peer for peer in two.table if peer.id != one.id))


def without_slots(state: Observed, node: str, *, half: bool = False) -> Observed:
    """The fleet with a primary that owns no slots yet, or only the first half, as every node knows."""
    own = state.node(name(node))
    left = tuple((first, (first + last) // 2) for first, last in own.slots) if half else ()

    def after(one: NodeFacts) -> NodeFacts:
        table = tuple(replace(peer, slots=left) if peer.id == own.id else peer for peer in one.table)
        return replace(one, table=table, slots=left if one.id == own.id else one.slots)

    return Observed(nodes=tuple(after(one) for one in state.nodes))


def following(state: Observed, node: str, primary: str) -> Observed:
    """The fleet with a replica that follows another primary than before."""
    return changed(state, node, role=Role.REPLICA, follows=id_of(primary), slots=(), link=ReplicationLink.UP)


def damaged(state: Observed, damages: Iterable[Damage]) -> Observed:
    for damage in damages:
        state = damage(state)
    return state


def _with(state: Observed, node: str, change: Callable[[NodeFacts], NodeFacts]) -> Observed:
    return replace(state, nodes=tuple(change(own) if own.name == node else own for own in state.nodes))


def _dead(own: NodeFacts, disk: OnDisk) -> NodeFacts:
    return NodeFacts(name=own.name, id=own.id, presence=Presence.ABSENT, evidence="connection refused", disk=disk)


def _down_links(state: Observed, dead: NodeId) -> Observed:
    """The view of the other nodes on a dead node."""

    def after(one: NodeFacts) -> NodeFacts:
        table = tuple(replace(peer, failed=True, linked=False) if peer.id == dead else peer for peer in one.table)
        return replace(one, table=table, link=ReplicationLink.DOWN if one.follows == dead else one.link)

    return Observed(nodes=tuple(after(one) for one in state.nodes))


def _address(node: NodeFacts, state: Observed) -> tuple[str, int] | None:
    for other in state.nodes:
        if other.sentinel is not None and other.sentinel.primary is not None:
            return other.sentinel.primary[0], 7_000 + int(node.name.removeprefix("node-"))
    return None


def _told(peer: Peer, winner: NodeFacts, old: NodeFacts, slots: tuple[tuple[int, int], ...], epoch: int) -> Peer:
    if peer.id == winner.id:
        return replace(peer, role=Role.PRIMARY, follows=None, slots=slots, epoch=epoch)
    if peer.id == old.id and old.is_up:
        return replace(peer, role=Role.REPLICA, follows=winner.id, slots=(), epoch=epoch)
    if peer.id == old.id:
        return replace(peer, slots=())
    return replace(peer, follows=winner.id) if peer.follows == old.id else peer


def _line(topology: Topology, spec: NodeSpec) -> Peer:
    shard = spec.shard or 0
    primary = spec if spec.starts_as_primary else all_nodes(topology)[shard]
    return Peer(
        id=id_of(spec.name),
        address=spec.address,
        port=spec.port,
        role=Role.PRIMARY if spec.starts_as_primary else Role.REPLICA,
        follows=None if spec.starts_as_primary else id_of(primary.name),
        slots=(slot_range(shard, topology.cluster.shards),) if spec.starts_as_primary else (),
        # Servers report a replica with the epoch of its primary.
        epoch=primary.index + 1,
    )


def _member(topology: Topology, spec: NodeSpec, table: tuple[Peer, ...]) -> NodeFacts:
    own = next(peer for peer in table if peer.id == id_of(spec.name))
    return replace(
        _running(topology, spec, own.role),
        follows=own.follows,
        slots=own.slots,
        epoch=own.epoch,
        table=table,
        fleet_ok=True,
    )


def _watched_node(topology: Topology, spec: NodeSpec) -> NodeFacts:
    specs = all_nodes(topology)
    primary = specs[0]
    if not spec.is_sentinel:
        is_primary = spec.name == primary.name
        facts = _running(topology, spec, Role.PRIMARY if is_primary else Role.REPLICA)
        return facts if is_primary else replace(facts, follows=id_of(primary.name))
    view = SentinelView(
        primary=(primary.address, primary.port),
        options=sentinel_options(topology),
        replicas=tuple((one.address, one.port) for one in specs[1:] if not one.is_sentinel),
        peers=tuple(id_of(one.name) for one in specs if one.is_sentinel and one.name != spec.name),
        usable_quorum=True,
    )
    facts = _running(topology, spec, Role.SENTINEL)
    return replace(facts, sentinel=view, settings={}, offset=None, keys=None, used_bytes=None)


def _running(topology: Topology, spec: NodeSpec, role: Role) -> NodeFacts:
    return NodeFacts(
        name=spec.name,
        id=id_of(spec.name),
        presence=Presence.UP,
        disk=OnDisk(running=True, pid=1_000 + spec.index, own_id=id_of(spec.name)),
        role=role,
        link=ReplicationLink.UP if role is Role.REPLICA else ReplicationLink.NONE,
        offset=5_000 + spec.index,
        lag_bytes=0 if role is Role.REPLICA else None,
        keys=10,
        flavor=topology.engine.flavor.value,
        version=VERSION,
        pid=1_000 + spec.index,
        used_bytes=2_000_000,
        settings=dict(tunables(topology)),
        acl_revision=REVISION,
    )
