"""Brings a throw-away fleet into the faults that the pages are for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from signal import Signals

from rlctl.errors import Unreachable
from rlctl.execute.fleet_records import RELEASE_KEY, write_registered
from rlctl.execute.locking import primary_for_key
from rlctl.execute.session import FleetSession
from rlctl.lab.partition import isolation
from rlctl.lab.partitioner import SandboxPartitioner
from rlctl.lab.roles import LabRole, Roles
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
from rlctl.system.redis import CommandFailed, NodeLink, Reply
from rlctl.targets.base import Launch
from rlctl.topology.model import EvictionPolicy, Kind
from rlctl.topology.nodes import NodeSpec, data_nodes

DEADLINE_S = 60.0
LOOK_EVERY_S = 0.1
# A replica that heard nothing for so long is not elected, see the settings of the rehearsal that uses this.
TOO_OLD_S = 13
NEARLY_FULL = 0.88
# A server that evicts is never full: no more than so many times its memory is written.
MOST_FILLED = 2
_FILLER_BYTES = 64 * 1024
_FILLER_TTL_S = 3_600
_BATCH = 16
_OTHER_RELEASE = Registered(release="99.0.0", digest="0" * 40, state="applied")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """A fleet to break, who plays which part in it, and its network."""

    fleet: FleetSession
    roles: Roles
    cuts: SandboxPartitioner

    def heal(self) -> None:
        """What others than the operator mend: the network."""
        self.cuts.heal()

    def link(self, spec: NodeSpec) -> NodeLink:
        """A connection for one purpose; it is to be closed."""
        return self.fleet.connector.separate_link(spec)

    def send(self, spec: NodeSpec, *commands: Sequence[object]) -> list[Reply]:
        """Commands that must not fail."""
        with closing(self.link(spec)) as link:
            replies = link.pipeline(commands)
        refused = [str(reply) for reply in replies if isinstance(reply, CommandFailed)]
        if refused:
            raise Unreachable(f"{spec.name} does not take part in the fault: {refused[0]}", hint="see its log")
        return replies

    def kill(self, nodes: Sequence[NodeSpec]) -> None:
        """SIGKILL."""
        self.fleet.target.signal(nodes, Signals.SIGKILL)

    def wait(self, is_so: Callable[[Observed], bool], what: str) -> None:
        """Until the fleet shows the fault."""
        wait_until(
            lambda: is_so(self.fleet.observe()),
            timeout_s=DEADLINE_S,
            clock=self.fleet.clock,
            what=what,
            every_s=LOOK_EVERY_S,
        )


def bring_about(fault: Fault, context: FaultContext) -> None:
    """Break the fleet."""
    FAULTS[fault](context)


def _kill_primary(context: FaultContext) -> None:
    context.kill([context.roles.victim])


def _kill_replica(context: FaultContext) -> None:
    """One of those that the primary needs for its writes: it lives, and refuses."""
    context.kill(context.roles.of(LabRole.REPLICA))
    primary = context.roles.victim.name
    context.wait(lambda seen: lacks_replicas(seen.node(primary)), f"{primary} refusing writes")


def _kill_shard(context: FaultContext) -> None:
    """A primary with everybody who could take over from it."""
    context.kill(context.roles.shard)


def _leave_no_heir(context: FaultContext) -> None:
    """A replica that has not heard from its primary for long is not elected when that dies."""
    _lock_replicas_out(context)
    replica = context.roles.replicas[0]
    wait_until(
        lambda: _silence_s(context, replica) > TOO_OLD_S,
        timeout_s=DEADLINE_S,
        clock=context.fleet.clock,
        what=f"{replica.name} out of touch for too long",
        every_s=LOOK_EVERY_S,
    )
    context.kill([context.roles.victim])


def _silence_s(context: FaultContext, replica: NodeSpec) -> int:
    [text] = context.send(replica, ("INFO", "replication"))
    return ServerInfo(text).link_down_s or 0


def _cut_primary_off(context: FaultContext) -> None:
    roles = context.roles
    context.cuts.cut(isolation(roles.cut_off(LabRole.VICTIM), roles.all_nodes, ()))
    context.wait(lambda observed: _is_promoted(context, observed), "a replica promoted beyond the cut")


def _is_promoted(context: FaultContext, observed: Observed) -> bool:
    """Also in the eyes of those who order it."""
    promoted = {spec.name for spec in context.roles.replicas if observed.node(spec.name).role is Role.PRIMARY}
    if context.fleet.topology.kind is Kind.CLUSTER:
        return bool(promoted)
    return believed_primary(context.fleet.desired(observed), observed).name in promoted


def _promote_rival(context: FaultContext) -> None:
    """Nobody watches, and somebody makes a replica a primary by hand."""
    rival = context.roles.replicas[0]
    if context.fleet.topology.kind is Kind.CLUSTER:
        context.send(rival, ("CLUSTER", "RESET", "SOFT"))
        return
    context.kill(context.roles.sentinels)
    context.send(rival, ("REPLICAOF", "NO", "ONE"))


def _fence_primary(context: FaultContext) -> None:
    """Somebody fenced the loser of a split, and it has become the primary again since."""
    context.send(context.roles.victim, ("CONFIG", "SET", FENCE_SETTING, FENCED_VALUE))


def _kill_majority(context: FaultContext) -> None:
    context.kill([context.roles.victim, *context.roles.of(LabRole.SECOND)])
    context.wait(lambda seen: not any(node.fleet_ok for node in seen.up), "the survivors noticing that most are gone")


def _kill_primaries(context: FaultContext) -> None:
    context.kill([context.roles.victim, *context.roles.other_primaries])
    context.wait(lambda seen: not any(node.fleet_ok for node in seen.up), "the replicas noticing that all are gone")


def _lock_replicas_out(context: FaultContext) -> None:
    off = ("ACL", "SETUSER", User.REPLICA.value, "off")
    context.send(context.roles.victim, off, ("CLIENT", "KILL", "TYPE", "replica"))
    replicas = [spec.name for spec in context.roles.replicas]
    context.wait(
        lambda seen: all(seen.node(name).link is ReplicationLink.DOWN for name in replicas), "replicas without a link"
    )


def _fill_nearly(context: FaultContext) -> None:
    for node, spec in _primaries(context):
        _fill(context, node, spec, NEARLY_FULL)


def _fill_up(context: FaultContext) -> None:
    for node, spec in _primaries(context):
        _fill(context, node, spec, None)


def _evict(context: FaultContext) -> None:
    """Somebody sets a policy that evicts, and the memory is full."""
    for spec in data_nodes(context.fleet.topology):
        context.send(spec, ("CONFIG", "SET", "maxmemory-policy", EvictionPolicy.ALLKEYS_LRU.value))
    for node, spec in _primaries(context):
        while not _evicted(context, spec):
            context.send(spec, *_fillers(node, _BATCH, start=_count(context, spec)))


def _fill(context: FaultContext, node: NodeFacts, spec: NodeSpec, share: float | None) -> None:
    """Keys that live for an hour, up to a share of the memory, or until the server takes no more."""
    limit = context.fleet.topology.memory.maxmemory_bytes
    start = 0
    with closing(context.link(spec)) as link:
        while share is None or _used_bytes(link) < share * limit:
            replies = link.pipeline(_fillers(node, _BATCH if share is None else 1, start=start))
            start += len(replies)
            if start * _FILLER_BYTES > MOST_FILLED * limit:
                raise Unreachable(f"{spec.name} takes more than its memory: it evicts", hint="use the fault evicting")
            if any(isinstance(reply, CommandFailed) for reply in replies):
                return


def _used_bytes(link: NodeLink) -> int:
    return required(ServerInfo(link.call("INFO", "memory")).used_bytes, "used_memory")


def _fillers(node: NodeFacts, count: int, *, start: int) -> list[tuple[object, ...]]:
    """SETs of keys that this primary owns."""
    found: list[tuple[object, ...]] = []
    number = start * 8
    while len(found) < count:
        key = f"rl:filler:{number}"
        if not node.slots or any(low <= key_slot(key) <= high for low, high in node.slots):
            found.append(("SET", key, "x" * _FILLER_BYTES, "EX", _FILLER_TTL_S))
        number += 1
    return found


def _evicted(context: FaultContext, spec: NodeSpec) -> bool:
    [text] = context.send(spec, ("INFO", "stats"))
    return required(ServerInfo(text).evicted_keys, "evicted_keys") > 0


def _count(context: FaultContext, spec: NodeSpec) -> int:
    [count] = context.send(spec, ("DBSIZE",))
    return int(count)


def _flush_scripts(context: FaultContext) -> None:
    for spec in data_nodes(context.fleet.topology):
        context.send(spec, ("SCRIPT", "FLUSH"))


def _register_other_release(context: FaultContext) -> None:
    """Somebody with another rlctl applied another release: it is registered, and this one's scripts are gone."""
    fleet = context.fleet
    spec = primary_for_key(fleet, fleet.observe(), RELEASE_KEY)
    assert spec is not None
    with closing(context.link(spec)) as link:
        write_registered(link, _OTHER_RELEASE)
    _flush_scripts(context)


def _kill_sentinels(context: FaultContext) -> None:
    context.kill(context.roles.of(LabRole.SENTINELS))


def _reborn_empty(context: FaultContext) -> None:
    """A supervisor starts the primary that held the rules again before anybody noticed that it was gone."""
    fleet = context.fleet
    spec = primary_for_key(fleet, fleet.observe(), POINTER_KEY)
    assert spec is not None
    context.kill([spec])
    result = fleet.target.converge([Launch(spec=spec)])[spec.name]
    if result.error is not None:
        raise Unreachable(f"{spec.name} does not start: {result.error}", hint="see its log")
    context.fleet.connector.hang_up(spec.name)
    context.wait(lambda observed: _is_back(observed, spec), f"{spec.name} back with its replicas")


def _is_back(observed: Observed, spec: NodeSpec) -> bool:
    node = observed.node(spec.name)
    replicas = [one for one in observed.up if one.follows == node.id]
    serves = node.is_up and node.role is Role.PRIMARY and node.fleet_ok is not False
    return serves and bool(replicas) and all(one.link is ReplicationLink.UP for one in replicas)


def _lock_limiter_out(context: FaultContext) -> None:
    """On one primary alone: services of the other shards notice nothing."""
    *_others, (_node, last) = _primaries(context)
    context.send(last, ("ACL", "SETUSER", User.LIMITER.value, "off"))


def _primaries(context: FaultContext) -> list[tuple[NodeFacts, NodeSpec]]:
    fleet = context.fleet
    observed = fleet.observe()
    specs = {spec.name: spec for spec in data_nodes(fleet.topology)}
    if fleet.topology.kind is Kind.SENTINEL:
        primary = believed_primary(fleet.desired(observed), observed)
        return [(primary, specs[primary.name])]
    owners = [shard.owner for shard in shards(fleet.topology, observed)]
    return [(node, specs[node.name]) for node in owners if node is not None]


FAULTS: Mapping[Fault, Callable[[FaultContext], None]] = {
    Fault.PRIMARY_KILLED: _kill_primary,
    Fault.REPLICA_KILLED: _kill_replica,
    Fault.SHARD_KILLED: _kill_shard,
    Fault.NO_ELECTION: _leave_no_heir,
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
    Fault.PRIMARY_REBORN_EMPTY: _reborn_empty,
    Fault.LIMITER_LOCKED_OUT: _lock_limiter_out,
}
