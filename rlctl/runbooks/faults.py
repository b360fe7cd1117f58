"""Injects the faults of the runbook pages into a throw-away fleet."""

from collections.abc import Callable, Mapping
from contextlib import closing

from rlctl.errors import Unreachable
from rlctl.execute.fleet_records import RELEASE_KEY, write_registered
from rlctl.execute.locking import primary_for_key
from rlctl.lab.faults import DEADLINE_S, LOOK_EVERY_S, FaultInjector
from rlctl.lab.partition import Flow
from rlctl.lab.roles import LabRole
from rlctl.limits.release import Registered
from rlctl.limits.rule import POINTER_KEY
from rlctl.limits.slots import key_slot
from rlctl.observe.info import ServerInfo
from rlctl.observe.model import NodeFacts, Observed, ReplicationLink, Role
from rlctl.observe.parse import required
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE, lacks_replicas
from rlctl.plan.ownership import shards
from rlctl.plan.sentinel import believed_primary
from rlctl.runbooks.page.model import Fault
from rlctl.secrets import User
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, NodeLink
from rlctl.topology.model import EvictionPolicy, Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

# With the settings of the rehearsal, a replica that received no data for longer than this cannot be elected.
TOO_OLD_S = 13
NEARLY_FULL = 0.88
# Multiple of maxmemory after which the fill gives up: a server that evicts keys never gets full.
MOST_FILLED = 2
_FILLER_BYTES = 64 * 1024
_FILLER_TTL_S = 3_600
_BATCH = 16
_OTHER_RELEASE = Registered(release="99.0.0", digest="0" * 40, state="applied")


def inject(fault: Fault, injector: FaultInjector) -> None:
    FAULTS[fault](injector)


def _kill_primary(injector: FaultInjector) -> None:
    injector.processes.kill([injector.roles.victim])


def _kill_replica(injector: FaultInjector) -> None:
    """Kill a replica that min-replicas needs, and wait until the primary refuses writes."""
    injector.processes.kill(injector.roles.of(LabRole.REPLICA))
    primary = injector.roles.victim.name
    injector.wait_until(lambda seen: lacks_replicas(seen.node(primary)), f"{primary} refusing writes")


def _kill_shard(injector: FaultInjector) -> None:
    """Kill a primary and all its replicas."""
    injector.processes.kill(injector.roles.shard)


def _prevent_election(injector: FaultInjector) -> None:
    """Stop replication until the replicas' data is too old for an election, then kill the primary."""
    _lock_replicas_out(injector)
    replica = injector.roles.replicas[0]
    wait_until(
        lambda: _silence_s(injector, replica) > TOO_OLD_S,
        timeout_s=DEADLINE_S,
        clock=injector.fleet.clock,
        what=f"{replica.name} without data from its primary for too long",
        every_s=LOOK_EVERY_S,
    )
    injector.processes.kill([injector.roles.victim])


def _silence_s(injector: FaultInjector, replica: NodeSpec) -> int:
    [text] = injector.send(replica, ("INFO", "replication"))
    return ServerInfo(text).link_down_s or 0


def _cut_primary_off(injector: FaultInjector) -> None:
    injector.cut(injector.planned_partition(Flow.EVERYTHING, LabRole.VICTIM))
    injector.wait_until(injector.is_promoted, "a replica promoted beyond the cut")


def _promote_rival(injector: FaultInjector) -> None:
    """Make a replica a second primary that Sentinel or the cluster does not know."""
    rival = injector.roles.replicas[0]
    if injector.fleet.topology.kind is Kind.CLUSTER:
        injector.send(rival, ("CLUSTER", "RESET", "SOFT"))
        return
    injector.processes.kill(injector.roles.sentinels)
    injector.send(rival, ("REPLICAOF", "NO", "ONE"))


def _fence_primary(injector: FaultInjector) -> None:
    """Fence the primary, as if its fence had been left in place after a split."""
    injector.send(injector.roles.victim, ("CONFIG", "SET", FENCE_SETTING, FENCED_VALUE))


def _kill_majority(injector: FaultInjector) -> None:
    injector.processes.kill([injector.roles.victim, *injector.roles.of(LabRole.SECOND)])
    injector.wait_until(_no_node_serves, "the survivors noticing that most are gone")


def _kill_primaries(injector: FaultInjector) -> None:
    injector.processes.kill([injector.roles.victim, *injector.roles.other_primaries])
    injector.wait_until(_no_node_serves, "the replicas noticing that all are gone")


def _no_node_serves(observed: Observed) -> bool:
    return not any(node.fleet_ok for node in observed.up)


def _lock_replicas_out(injector: FaultInjector) -> None:
    injector.lock_replicas_out()
    replicas = [spec.name for spec in injector.roles.replicas]
    injector.wait_until(
        lambda seen: all(seen.node(name).link is ReplicationLink.DOWN for name in replicas), "replicas without a link"
    )


def _fill_nearly(injector: FaultInjector) -> None:
    for node, spec in _primaries(injector):
        _fill(injector, node, spec, NEARLY_FULL)


def _fill_up(injector: FaultInjector) -> None:
    for node, spec in _primaries(injector):
        _fill(injector, node, spec, None)


def _evict(injector: FaultInjector) -> None:
    """Set an eviction policy, and fill the memory until keys are evicted."""
    for spec in data_nodes(injector.fleet.topology):
        injector.send(spec, ("CONFIG", "SET", "maxmemory-policy", EvictionPolicy.ALLKEYS_LRU.value))
    for node, spec in _primaries(injector):
        while not _evicted(injector, spec):
            injector.send(spec, *_fillers(node, _BATCH, start=_count(injector, spec)))


def _fill(injector: FaultInjector, node: NodeFacts, spec: NodeSpec, share: float | None) -> None:
    """Write keys up to `share` of maxmemory (None: until the server refuses writes). The keys expire after an hour."""
    limit = injector.fleet.topology.memory.maxmemory_bytes
    start = 0
    with closing(injector.link(spec)) as link:
        while share is None or _used_bytes(link) < share * limit:
            replies = link.pipeline(_fillers(node, _BATCH if share is None else 1, start=start))
            start += len(replies)
            if start * _FILLER_BYTES > MOST_FILLED * limit:
                raise Unreachable(
                    f"{spec.name} accepts more than its memory, so it evicts", hint="use the fault evicting"
                )
            if any(isinstance(reply, CommandFailed) for reply in replies):
                return


def _used_bytes(link: NodeLink) -> int:
    return required(ServerInfo(link.call("INFO", "memory")).used_bytes, "used_memory")


def _fillers(node: NodeFacts, count: int, *, start: int) -> list[tuple[object, ...]]:
    """SET commands for keys in this primary's slots."""
    found: list[tuple[object, ...]] = []
    number = start * 8
    while len(found) < count:
        key = f"rl:filler:{number}"
        if not node.slots or any(low <= key_slot(key) <= high for low, high in node.slots):
            found.append(("SET", key, "x" * _FILLER_BYTES, "EX", _FILLER_TTL_S))
        number += 1
    return found


def _evicted(injector: FaultInjector, spec: NodeSpec) -> bool:
    [text] = injector.send(spec, ("INFO", "stats"))
    return required(ServerInfo(text).evicted_keys, "evicted_keys") > 0


def _count(injector: FaultInjector, spec: NodeSpec) -> int:
    [count] = injector.send(spec, ("DBSIZE",))
    return int(count)


def _flush_scripts(injector: FaultInjector) -> None:
    for spec in data_nodes(injector.fleet.topology):
        injector.send(spec, ("SCRIPT", "FLUSH"))


def _register_other_release(injector: FaultInjector) -> None:
    """Register another release and flush the loaded scripts, as another version of rlctl would."""
    fleet = injector.fleet
    spec = primary_for_key(fleet, fleet.observe(), RELEASE_KEY)
    assert spec is not None
    with closing(injector.link(spec)) as link:
        write_registered(link, _OTHER_RELEASE)
    _flush_scripts(injector)


def _kill_sentinels(injector: FaultInjector) -> None:
    injector.processes.kill(injector.roles.of(LabRole.SENTINELS))


def _restart_empty(injector: FaultInjector) -> None:
    """Kill the primary that stores the rules, and restart it before a replica is promoted."""
    fleet = injector.fleet
    spec = primary_for_key(fleet, fleet.observe(), POINTER_KEY)
    assert spec is not None
    injector.processes.kill([spec])
    injector.processes.start(spec)
    injector.wait_until(lambda observed: _is_back(observed, spec), f"{spec.name} back with its replicas")


def _is_back(observed: Observed, spec: NodeSpec) -> bool:
    node = observed.node(spec.name)
    replicas = [one for one in observed.up if one.follows == node.id]
    serves = node.is_up and node.role is Role.PRIMARY and node.fleet_ok is not False
    return serves and bool(replicas) and all(one.link is ReplicationLink.UP for one in replicas)


def _lock_limiter_out(injector: FaultInjector) -> None:
    """Disable the limiter's user on one primary, so that only the other shards still decide."""
    *_others, (_node, last) = _primaries(injector)
    injector.send(last, ("ACL", "SETUSER", User.LIMITER.value, "off"))


def _primaries(injector: FaultInjector) -> list[tuple[NodeFacts, NodeSpec]]:
    fleet = injector.fleet
    observed = fleet.observe()
    specs = {spec.name: spec for spec in data_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.SENTINEL:
        primary = believed_primary(fleet.desired(observed), observed)
        return [(primary, specs[primary.name])]
    owners = [shard.owner for shard in shards(fleet.topology, observed)]
    return [(node, specs[node.name]) for node in owners if node is not None]


FAULTS: Mapping[Fault, Callable[[FaultInjector], None]] = {
    Fault.PRIMARY_KILLED: _kill_primary,
    Fault.REPLICA_KILLED: _kill_replica,
    Fault.SHARD_KILLED: _kill_shard,
    Fault.NO_ELECTION: _prevent_election,
    Fault.PRIMARY_CUT_OFF: _cut_primary_off,
    Fault.RIVAL_PRIMARY: _promote_rival,
    Fault.PRIMARY_FENCED: _fence_primary,
    Fault.MAJORITY_KILLED: _kill_majority,
    Fault.PRIMARIES_KILLED: _kill_primaries,
    Fault.REPLICAS_LOCKED_OUT: _lock_replicas_out,
    Fault.MEMORY_NEARLY_FULL: _fill_nearly,
    Fault.MEMORY_FULL: _fill_up,
    Fault.EVICTING: _evict,
    Fault.SCRIPTS_FLUSHED: _flush_scripts,
    Fault.OTHER_RELEASE: _register_other_release,
    Fault.QUORUM_KILLED: _kill_sentinels,
    Fault.PRIMARY_REBORN_EMPTY: _restart_empty,
    Fault.LIMITER_LOCKED_OUT: _lock_limiter_out,
}
