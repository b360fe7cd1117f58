"""What is wrong with a fleet right now: the verdict of `status` and of the check after `deploy`. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlctl.observe.model import Link, NodeFacts, Observed, Presence, Role
from rlctl.observe.parse import slot_count
from rlctl.plan.desired import Desired, lacks_users, missing_scripts, setting_drift
from rlctl.plan.fence import fenced
from rlctl.plan.ownership import Shard, ownership, shards
from rlctl.plan.sentinel import believed_primary, data, named_primaries, sentinels
from rlctl.plan.tilt import in_tilt, is_in_tilt, remaining_s
from rlctl.plan.unproven import is_unheard_of, is_unknown, is_unproven, may_serve, way_out
from rlctl.topology.change import Refusal, summary
from rlctl.topology.model import Kind, TargetName
from rlctl.topology.nodes import NodeName


class Severity(StrEnum):
    """Degraded: it works and has less to lose. Critical: decisions fail, or counts are in danger now."""

    DEGRADED = "degraded"
    CRITICAL = "critical"


class State(StrEnum):
    """The fleet in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    CRITICAL = "critical"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be; `subject` is a node, a shard or the fleet."""

    code: str
    severity: Severity
    subject: str
    text: str

    def to_json(self) -> dict[str, str]:
        """As `status -o json` shows it."""
        return {"code": self.code, "severity": self.severity, "subject": self.subject, "text": self.text}


_PRESENCE = {
    Presence.ABSENT: ("node-down", "is down"),
    Presence.HUNG: ("node-hung", "has a process that does not answer"),
    Presence.FULL: ("node-maxclients", "runs and takes no more clients"),
    Presence.LOADING: ("node-loading", "is loading its data"),
    Presence.DENIED: ("node-denied", "refuses our password"),
    Presence.NONSENSE: ("node-nonsense", "answers nonsense"),
    Presence.UNPROVEN: ("node-unproven", "is not proven to be what listens at its port, and was sent no password"),
    Presence.STRANGER: ("node-stranger", "is not there, a stranger holds its port"),
    Presence.FOREIGN: ("node-foreign", "is not there, a node of another fleet holds its port"),
}


NODE_FENCED = "node-fenced"
# What an operator has asked for: told, but nothing that a deploy could wait for or has failed at.
INTENDED = frozenset({NODE_FENCED})
# Told as well; a deploy neither causes nor ends them.
NOT_OF_DEPLOY = INTENDED | {"memory-full"}


def assess(desired: Desired, observed: Observed) -> tuple[Finding, ...]:
    """All findings, the gravest first, in a stable order."""
    if not observed.exists:
        return tuple(_out_of_sight(observed))
    if _is_shut_out(desired, observed):
        text = (
            f"none of the {len(observed.nodes)} nodes answers this machine, and all of their processes run: "
            "the firewall on the hosts may not know this machine; `rlctl deploy` adds it"
        )
        return (_degraded("node-unknown", "fleet", text), *differences(desired.refusals))
    kind = _cluster if desired.topology.kind is Kind.CLUSTER else _sentinel
    found = [
        *differences(desired.refusals),
        *_presence(observed),
        *fences(observed),
        *tilts(observed),
        *_drift(desired, observed),
        *(_nothing_known(desired) if is_unknown(observed) else kind(desired, observed)),
    ]
    return tuple(sorted(found, key=lambda one: (one.severity is Severity.DEGRADED, one.subject, one.code)))


def _nothing_known(desired: Desired) -> Iterator[Finding]:
    text = (
        f"no node is proven, so none was asked, and whether the fleet serves is not known: {way_out(desired.topology)}"
    )
    yield _degraded("node-unproven", "fleet", text)


def state_of(findings: Iterable[Finding], observed: Observed) -> State:
    """The verdict."""
    severities = {finding.severity for finding in findings}
    if not observed.exists and not severities:
        return State.ABSENT
    if Severity.CRITICAL in severities:
        return State.CRITICAL
    return State.DEGRADED if severities else State.HEALTHY


def _out_of_sight(observed: Observed) -> Iterator[Finding]:
    """Nothing of the fleet was seen; what lies on a host that nobody can look at is not known to be absent."""
    for node in observed.nodes:
        if node.disk.unknown is not None:
            text = f"whether {node.name} is there cannot be told: {node.disk.unknown}"
            yield _critical("node-unknown", node.name, text)


def _is_shut_out(desired: Desired, observed: Observed) -> bool:
    """Whether every packet of ours is dropped; of a process that hangs, but takes a connection, no pid is asked for."""
    is_there = desired.topology.target is TargetName.HOSTS
    return is_there and all(node.presence is Presence.HUNG and node.disk.pid is not None for node in observed.nodes)


def differences(refusals: Sequence[Refusal]) -> Iterator[Finding]:
    """What the file asks for and deploy refuses. Degraded: the fleet serves, but no deploy can repair it meanwhile."""
    if refusals:
        yield _degraded("topology-differs", "fleet", f"deploy would refuse: {summary(refusals)}")


def _presence(observed: Observed) -> Iterator[Finding]:
    for node in observed.nodes:
        if node.presence is Presence.ABSENT and node.disk.unknown is not None:
            yield _degraded("node-unknown", node.name, f"{node.name} does not answer: {node.disk.unknown}")
        elif node.presence in _PRESENCE:
            code, text = _PRESENCE[node.presence]
            starting = node.presence is Presence.ABSENT and node.disk.running
            evidence = "its process runs but does not listen" if starting else node.evidence
            yield _degraded(code, node.name, f"{node.name} {text}" + (f" ({evidence})" if evidence else ""))


def fences(observed: Observed) -> Iterator[Finding]:
    """The nodes that refuse writes because somebody wants it so."""
    for node in fenced(observed):
        lift = f"`rlctl unfence {node.name}` lifts it"
        yield _degraded(NODE_FENCED, node.name, f"{node.name} is fenced: it refuses writes; {lift}")


def tilts(observed: Observed) -> Iterator[Finding]:
    """The sentinels in TILT."""
    for node in in_tilt(observed):
        text = (
            f"{node.name} is in TILT for about {remaining_s([node])} s more, after a stall or a clock jump: "
            "it acts on nothing and its view of other nodes is stale"
        )
        yield _degraded("sentinel-tilt", node.name, text)


def _drift(desired: Desired, observed: Observed) -> Iterator[Finding]:
    for node in observed.nodes:
        if node.disk.misfit is not None:
            yield _degraded("place-drift", node.name, f"{node.name}: {node.disk.misfit}")
    for node in observed.up:
        yield from _refusals(node)
        for drift in setting_drift(desired, node):
            text = f"{node.name} has {drift.setting} {drift.found}, the topology says {drift.wanted}"
            yield _degraded("setting-drift", node.name, text)
        lacking = missing_scripts(desired, node)
        if lacking:
            text = f"{node.name} lacks {len(lacking)} of {len(desired.scripts)} scripts: {_list(lacking)}"
            yield _degraded("scripts-missing", node.name, text)
        if lacks_users(desired, node):
            yield _degraded("users-drift", node.name, _users_text(desired, node))
        if node.flavor not in {None, desired.topology.engine.flavor.value}:
            yield _degraded("engine-drift", node.name, f"{node.name} runs {node.flavor} {node.version}")


def _refusals(node: NodeFacts) -> Iterator[Finding]:
    """A primary whose memory is full answers OOM to every decision; a replica follows its primary beyond its limit."""
    most = node.settings.get("maxmemory", "")
    if node.role is not Role.PRIMARY or node.settings.get("maxmemory-policy") != "noeviction":
        return
    if node.used_bytes is not None and most.isdecimal() and 0 < int(most) <= node.used_bytes:
        text = f"{node.name} refuses writes (OOM): {node.used_bytes} bytes used, maxmemory is {most}"
        yield _critical("memory-full", node.name, text)


def _users_text(desired: Desired, node: NodeFacts) -> str:
    if node.acl_revision != desired.revisions[node.name]:
        return f"{node.name} has not loaded the users of this release"
    return f"{_list(node.users_off)} cannot log in on {node.name}: switched off or another password"


def _cluster(desired: Desired, observed: Observed) -> Iterator[Finding]:
    yield from _coverage(desired, observed)
    yield from _membership(observed)
    for shard in shards(desired.topology, observed):
        yield from _shard(desired, observed, shard)
    refusing = [node.name for node in observed.up if node.role is Role.PRIMARY and node.fleet_ok is False]
    if refusing:
        yield _critical("cluster-fail", "fleet", f"cluster_state is fail on {_list(refusing)}: writes are refused")


def _coverage(desired: Desired, observed: Observed) -> Iterator[Finding]:
    owned = ownership(observed)
    nodes = observed.by_id()
    unowned = len(owned.unowned())
    if unowned and not is_unheard_of(observed, observed.nodes):
        yield _critical("slots-uncovered", "fleet", f"{unowned} slots belong to nobody")
    for node_id, slots in owned.claims.items():
        node = nodes.get(node_id)
        if not slots or (node is not None and (node.is_up or may_serve(desired, observed, node))):
            continue
        name = node_id[:8] if node is None else node.name
        is_silent = node is None or not is_unproven(node)
        why = "which does not answer" if is_silent else "which is not proven, and which other nodes hold for failed"
        yield _critical("slots-uncovered", _shard_name(desired, name), f"{len(slots)} slots belong to {name}, {why}")


def _shard_name(desired: Desired, name: str) -> str:
    spec = desired.specs.get(NodeName(name))
    return f"shard {spec.shard}" if spec else "fleet"


def _membership(observed: Observed) -> Iterator[Finding]:
    ids = observed.by_id()
    for node in observed.up:
        unknown = [other.name for other_id, other in ids.items() if other_id not in node.known]
        if unknown:
            yield _degraded("not-joined", node.name, f"{node.name} does not know {_list(unknown)}")
        aliens = sorted(peer_id[:8] for peer_id in node.known - set(ids))
        if aliens:
            yield _degraded("unknown-member", node.name, f"{node.name} knows {_list(aliens)}, not in the topology")
        doubted = [ids[peer.id].name for peer in node.table if peer.failed and peer.id in ids and ids[peer.id].is_up]
        if doubted:
            yield _degraded("views-split", node.name, f"{node.name} holds {_list(doubted)} for failed, which answers")


def _shard(desired: Desired, observed: Observed, shard: Shard) -> Iterator[Finding]:
    subject = f"shard {shard.number}"
    owner = shard.owner
    live_rivals = [node.name for node in shard.rivals if node.is_up]
    if owner is None:
        if not is_unheard_of(observed, shard.members):
            yield _critical("no-primary", subject, f"{subject} has no node that owns slots")
        return
    if live_rivals:
        yield _critical("two-primaries", subject, f"{owner.name} and {_list(live_rivals)} both own slots of {subject}")
    for node in shard.others:
        if node.is_up and not (node.role is Role.REPLICA and node.follows == owner.id):
            yield _degraded("wrong-role", node.name, f"{node.name} is no replica of {owner.name}")
    linked = [node for node in shard.live_replicas() if node.link is Link.UP]
    yield from _links(node for node in shard.live_replicas())
    may_have_replica = bool(linked) or any(may_serve(desired, observed, node) for node in shard.others)
    if desired.topology.cluster.replicas and owner.is_up and not may_have_replica:
        yield _degraded("no-replica", subject, f"{subject} has no linked replica: losing {owner.name} loses its counts")


def _links(replicas: Iterable[NodeFacts]) -> Iterator[Finding]:
    for node in replicas:
        if node.link is Link.DOWN:
            yield _degraded("link-down", node.name, f"{node.name} has no link to its primary")


def _sentinel(desired: Desired, observed: Observed) -> Iterator[Finding]:
    primary = believed_primary(desired, observed)
    nodes = data(desired, observed)
    is_serving = primary.is_up and primary.role is Role.PRIMARY
    if not is_serving and not may_serve(desired, observed, primary):
        yield _critical("no-primary", "fleet", f"{primary.name} should be the primary and is not serving")
    others = [node for node in nodes if node.is_up and node.id != primary.id]
    rivals = [node.name for node in others if node.role is Role.PRIMARY]
    if rivals:
        text = f"{_list(rivals)} takes writes beside {primary.name}"
        yield _critical("two-primaries", "fleet", text)
    strays = [node for node in others if node.role is Role.REPLICA and node.follows != primary.id]
    for node in strays:
        yield _degraded("wrong-role", node.name, f"{node.name} is no replica of {primary.name}")
    yield from _links(node for node in others if node.role is Role.REPLICA)
    may_have_replica = any(node.link is Link.UP and node.follows == primary.id for node in others) or any(
        may_serve(desired, observed, node) for node in nodes
    )
    if primary.is_up and not may_have_replica:
        yield _degraded("no-replica", "fleet", f"no linked replica: losing {primary.name} loses all counts")
    yield from _watchers(desired, observed, primary)


def _watchers(desired: Desired, observed: Observed, primary: NodeFacts) -> Iterator[Finding]:
    living = [node for node in sentinels(desired, observed) if node.is_up and node.sentinel is not None]
    named = named_primaries(desired, observed)
    if len(named) > 1 and living:
        views = ", ".join(f"{address}:{port} ({count})" for (address, port), count in sorted(named.items()))
        yield _critical("views-split", "fleet", f"sentinels disagree about the primary: {views}")
    count = desired.topology.sentinel.sentinels
    unasked = [node for node in sentinels(desired, observed) if may_serve(desired, observed, node)]
    if len(living) + len(unasked) <= count // 2:
        yield _critical("quorum-lost", "fleet", f"{len(living)} of {count} sentinels answer: no failover can happen")
    else:
        yield from _quorum_in_tilt(desired, living)
    for node in living:
        yield from _watcher(desired, node, primary, living=len(living))


def _quorum_in_tilt(desired: Desired, living: Sequence[NodeFacts]) -> Iterator[Finding]:
    """Critical like quorum-lost, however soon it passes: if the primary dies meanwhile, no sentinel replaces it.

    Counted against the quorum, not the majority: a sentinel in TILT still votes for a leader, but it never reports the
    primary as down.
    """
    tilted = [node for node in living if is_in_tilt(node)]
    acting, quorum = len(living) - len(tilted), desired.topology.sentinel.quorum
    if tilted and acting < quorum:
        text = (
            f"{acting} of {desired.topology.sentinel.sentinels} sentinels can act ({len(tilted)} in TILT) "
            f"and the quorum is {quorum}: no failover can happen for about {remaining_s(tilted)} s"
        )
        yield _critical("sentinel-tilt", "fleet", text)


def _watcher(desired: Desired, node: NodeFacts, primary: NodeFacts, *, living: int) -> Iterator[Finding]:
    view = node.sentinel
    if view is None or view.primary is None:
        yield _degraded("not-watching", node.name, f"{node.name} watches no primary")
        return
    if view.failing_over:
        yield _degraded("failing-over", node.name, f"{node.name} is replacing the primary")
    if is_in_tilt(node):
        # The rest is what it saw before it stalled. Its failover, and the primary that it names, are its own state.
        return
    if view.down:
        yield _degraded("primary-doubted", node.name, f"{node.name} holds the primary for down")
    if not view.usable_quorum and living > desired.topology.sentinel.sentinels // 2:
        yield _degraded("quorum-doubted", node.name, f"{node.name} sees no usable quorum")
    peers, wanted = len(view.peers), desired.topology.sentinel.sentinels - 1
    if peers != wanted:
        yield _degraded("peers", node.name, f"{node.name} reaches {peers} other sentinels, not {wanted}")
    followers = [spec for spec in desired.specs.values() if not spec.is_sentinel and spec.name != primary.name]
    unknown = [spec.name for spec in followers if (spec.address, spec.port) not in view.replicas]
    if unknown:
        yield _degraded("replicas-unreached", node.name, f"{node.name} does not reach the replicas {_list(unknown)}")


def slots_of(node: NodeFacts) -> int:
    """How many slots a node serves."""
    return slot_count(node.slots)


def _degraded(code: str, subject: str, text: str) -> Finding:
    return Finding(code=code, severity=Severity.DEGRADED, subject=subject, text=text)


def _critical(code: str, subject: str, text: str) -> Finding:
    return Finding(code=code, severity=Severity.CRITICAL, subject=subject, text=text)


def _list(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
