"""Queries every node over its own connection and with a deadline, and combines the answers into `Observed`."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rlctl.limits.release import Release
from rlctl.observe import parse
from rlctl.observe.connect import ANSWER_S, Connector
from rlctl.observe.info import ServerInfo, cluster_info
from rlctl.observe.model import NodeFacts, Observed, OnDisk, Presence, Role, SentinelView
from rlctl.render.acl import REVISION_USER, users_of
from rlctl.render.redis_conf import MAXCLIENTS, tunables
from rlctl.secrets import FleetSecrets, Secret
from rlctl.system.clock import Clock
from rlctl.system.redis import (
    Closed,
    CommandFailed,
    HandshakeDropped,
    InvalidReply,
    LinkFailure,
    Reply,
    Silent,
    Unproven,
)
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes, node_id

# If a time-out ends this late, the kernel did not run this process for a while. The node's answer may then have arrived
# without being read, so rlctl queries the node again.
OVERSLEPT_S = 0.25
WORKERS = 16

_PRESENCE = {
    "closed": Presence.ABSENT,
    "silent": Presence.HUNG,
    "full": Presence.FULL,
    "stranger": Presence.STRANGER,
    "dropped": Presence.STRANGER,
    "denied": Presence.DENIED,
    "nonsense": Presence.NONSENSE,
    "unproven": Presence.UNPROVEN,
}
_SECTIONS = ("server", "replication", "persistence", "memory", "keyspace")
Command = tuple[object, ...]
_CLUSTER_COMMANDS: tuple[Command, ...] = (("CLUSTER", "MYID"), ("CLUSTER", "NODES"), ("CLUSTER", "INFO"))


class Collector:
    """Reads the state of a fleet. Repeated reads use the same connections."""

    def __init__(
        self,
        topology: Topology,
        secrets: FleetSecrets,
        release: Release,
        connector: Connector,
        inspect: Callable[[Sequence[NodeSpec]], Mapping[NodeName, OnDisk]],
        clock: Clock,
        *,
        is_new: bool = False,
    ) -> None:
        self._topology = topology
        self._secrets = secrets
        self._sha1s = tuple(script.sha1 for script in release.scripts)
        self._connector = connector
        self._inspect = inspect
        self._clock = clock
        self._is_new = is_new

    def collect(self) -> Observed:
        """Read all nodes in parallel."""
        specs = all_nodes(self._topology)
        disk = self._inspect(specs)
        pool = ThreadPoolExecutor(max_workers=min(WORKERS, len(specs)))
        try:
            nodes = tuple(pool.map(lambda spec: self._node(spec, disk[spec.name]), specs))
        except BaseException:
            # End the queries that still run, so that Ctrl-C does not wait for the slowest node.
            self._connector.abort()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return Observed(nodes=_with_lag(_with_followed_ids(nodes, specs)))

    def _node(self, spec: NodeSpec, disk: OnDisk) -> NodeFacts:
        facts = NodeFacts(
            name=spec.name, id=node_id(self._secrets.fleet_id, spec.name), presence=Presence.ABSENT, disk=disk
        )
        if not disk.reachable:
            return facts
        was_open, started_s = self._connector.is_open(spec), self._clock.monotonic()
        try:
            return self._query(spec, facts)
        except LinkFailure as failure:
            if _is_worth_a_retry(failure, was_open=was_open, took_s=self._clock.monotonic() - started_s):
                return self._query_again(spec, facts)
            return replace(facts, presence=self._presence(failure, disk), evidence=str(failure))

    def _query_again(self, spec: NodeSpec, facts: NodeFacts) -> NodeFacts:
        try:
            return self._query(spec, facts)
        except LinkFailure as failure:
            return replace(facts, presence=self._presence(failure, facts.disk), evidence=str(failure))

    def _query(self, spec: NodeSpec, facts: NodeFacts) -> NodeFacts:
        link = self._connector.link(spec)
        commands = _sentinel_commands(self._topology.name) if spec.is_sentinel else self._data_commands()
        users = users_of(spec, self._secrets) if self._topology.security.acl else {}
        answers = link.pipeline([*commands, *(("ACL", "GETUSER", user) for user in users)])
        if isinstance(answers[0], CommandFailed) and answers[0].prefix == "BUSY":
            raise Silent(f"{link.endpoint}: {answers[0]}")
        own, of_users = answers[: len(commands)], answers[len(commands) :]
        try:
            known = _sentinel(facts, own) if spec.is_sentinel else self._data(facts, link.endpoint, own)
            return replace(known, users_off=_users_off(users, of_users)) if known.is_up else known
        except parse.BadReply as failure:
            raise InvalidReply(f"{link.endpoint}: {failure}") from failure

    def _presence(self, failure: LinkFailure, disk: OnDisk) -> Presence:
        """The presence of a node after a failed query.

        A server that refuses rlctl or does not answer counts as the node, unless the process of the node is known not
        to run.
        """
        presence = _PRESENCE[failure.reason]
        if disk.running and isinstance(failure, HandshakeDropped):
            # The node's process runs, so the failure does not come from another process. A TLS server at maxclients
            # closes a connection before it can answer with an error.
            return Presence.HUNG
        if presence is Presence.HUNG and disk.unknown is not None:
            # A machine that is off does not answer either, so the process may not exist.
            return Presence.ABSENT
        if disk.running or presence not in {Presence.DENIED, Presence.HUNG, Presence.FULL}:
            return presence
        # If rlctl has no secrets yet, a server that denies the login may still belong to this fleet, because another
        # machine may have deployed the fleet.
        surely_not_ours = disk.own_id is not None or (self._is_new and presence is not Presence.DENIED)
        return Presence.STRANGER if surely_not_ours else presence

    def _data_commands(self) -> tuple[Command, ...]:
        return (
            ("INFO", *_SECTIONS),
            # MAXCLIENTS is read even if the topology does not set it, because Redis lowers maxclients if its limit of
            # open files is too low.
            ("CONFIG", "GET", *tunables(self._topology), MAXCLIENTS),
            ("ACL", "GETUSER", REVISION_USER),
            ("SCRIPT", "EXISTS", *self._sha1s),
            *(_CLUSTER_COMMANDS if self._topology.kind is Kind.CLUSTER else ()),
        )

    def _data(self, facts: NodeFacts, endpoint: str, answers: Sequence[Reply]) -> NodeFacts:
        info = ServerInfo(_allowed(answers[0]))
        if info.is_loading:
            return replace(facts, presence=Presence.LOADING, evidence=f"{endpoint}: loading its data")
        facts = replace(_general(facts, info, answers[1], answers[2]), scripts=self._loaded_scripts(answers[3]))
        return _cluster(facts, answers[4:]) if self._topology.kind is Kind.CLUSTER else self._proven(facts)

    def _loaded_scripts(self, answer: Reply) -> frozenset[str] | None:
        if isinstance(answer, CommandFailed):
            return None
        held = parse.flags(answer, len(self._sha1s))
        return frozenset(sha1 for sha1, is_held in zip(self._sha1s, held, strict=True) if is_held)

    def _proven(self, facts: NodeFacts) -> NodeFacts:
        """Check by password or pid that a data node behind Sentinel belongs to the fleet, since it has no node id."""
        if self._topology.security.acl or (facts.disk.running and facts.pid == facts.disk.pid):
            return facts
        return replace(
            facts, presence=Presence.FOREIGN, evidence="neither a password nor a process of this fleet proves it"
        )


def _general(facts: NodeFacts, info: ServerInfo, config: Reply, acl: Reply) -> NodeFacts:
    return replace(
        facts,
        presence=Presence.UP,
        role=info.role or Role.PRIMARY,
        follows_address=info.primary_address,
        link=info.link,
        offset=info.offset,
        priority=info.priority,
        keys=info.keys,
        good_replicas=info.good_replicas,
        flavor=info.flavor,
        version=info.version,
        run_id=info.run_id,
        pid=info.pid,
        used_bytes=info.used_bytes,
        settings={} if isinstance(config, CommandFailed) else parse.pairs(config),
        acl_revision=_revision(acl),
    )


def _cluster(facts: NodeFacts, answers: Sequence[Reply]) -> NodeFacts:
    if isinstance(answers[0], CommandFailed):
        return replace(facts, presence=Presence.FOREIGN, evidence=f"not a cluster node: {answers[0]}")
    own_id = parse.own_id(answers[0])
    if own_id != facts.id:
        return replace(facts, presence=Presence.FOREIGN, evidence=f"its node id is {own_id}, expected {facts.id}")
    table = parse.table(_allowed(answers[1]))
    own = next((peer for peer in table if peer.id == own_id), None)
    if own is None:
        raise parse.BadReply("the table of a node does not contain the node itself", [peer.id for peer in table])
    return replace(
        facts,
        role=own.role,
        follows=own.follows,
        slots=own.slots,
        epoch=own.epoch,
        table=table,
        fleet_ok=cluster_info(_allowed(answers[2])).is_ok,
    )


def _is_worth_a_retry(failure: LinkFailure, *, was_open: bool, took_s: float) -> bool:
    """Whether to query the node once more.

    The first query may have met a server that was shutting down, or a process that is not the node. The second query
    tells them apart: the server now refuses the connection, and the other process gives the same answer again. When
    Sentinel changes the role of a node, it closes the node's connections, so a connection that was open and is now
    closed does not show that the node is down.
    """
    match failure:
        case HandshakeDropped() | Unproven():
            return True
        case Closed():
            return was_open
        case Silent():
            return took_s > ANSWER_S + OVERSLEPT_S
        case _:
            return False


def _sentinel_commands(name: str) -> tuple[Command, ...]:
    return (
        ("SENTINEL", "MYID"),
        ("INFO", "server", "sentinel"),
        ("ACL", "GETUSER", REVISION_USER),
        ("SENTINEL", "MASTER", name),
        ("SENTINEL", "REPLICAS", name),
        ("SENTINEL", "SENTINELS", name),
        ("SENTINEL", "CKQUORUM", name),
    )


def _sentinel(facts: NodeFacts, answers: Sequence[Reply]) -> NodeFacts:
    own, general, acl, primary, replicas, peers, quorum = answers
    own_id = parse.own_id(_allowed(own))
    if own_id != facts.id:
        return replace(facts, presence=Presence.FOREIGN, evidence=f"its sentinel id is {own_id}, expected {facts.id}")
    info = ServerInfo(_allowed(general))
    view = SentinelView()
    if not isinstance(primary, CommandFailed):
        view = parse.sentinel_view(primary, replicas, peers, quorum_ok=not isinstance(quorum, CommandFailed))
    return replace(
        facts,
        presence=Presence.UP,
        role=Role.SENTINEL,
        flavor=info.flavor,
        version=info.version,
        run_id=info.run_id,
        pid=info.pid,
        acl_revision=_revision(acl),
        sentinel=replace(view, tilt_s=info.tilt_s),
    )


def _users_off(users: Mapping[str, Secret], answers: Sequence[Reply]) -> frozenset[str]:
    """The users of the fleet whose passwords this node does not accept."""
    asked = zip(users.items(), answers, strict=True)
    return frozenset(user for (user, password), answer in asked if not _authenticates(password, answer))


def _authenticates(password: Secret, answer: Reply) -> bool:
    # An error reply to ACL GETUSER does not show that the server refuses the user, so the user is not reported.
    return isinstance(answer, CommandFailed) or parse.authenticates(answer, password.sha256())


def _allowed(reply: Reply) -> Reply:
    """Return the reply to a command that rlctl is allowed to run. Raises BadReply for an error reply."""
    if isinstance(reply, CommandFailed):
        raise parse.BadReply("a command was refused", str(reply))
    return reply


def _revision(reply: Reply) -> str | None:
    """The revision of the ACL file that the server has loaded; None if the server does not report it.

    The revision is a hash of the file's text. The file contains it as the password hash of the user REVISION_USER,
    which no client uses.
    """
    user = None if isinstance(reply, CommandFailed) else parse.user(reply)
    return next(iter(parse.passwords(user)), None) if user is not None else None


def _with_followed_ids(nodes: Sequence[NodeFacts], specs: Sequence[NodeSpec]) -> tuple[NodeFacts, ...]:
    """Fill in the id of each replica's primary: a replica behind Sentinel reports only the address of its primary."""
    ids = {(spec.address, spec.port): node.id for spec, node in zip(specs, nodes, strict=True)}
    return tuple(
        node
        if node.follows is not None or node.follows_address is None
        else replace(node, follows=ids.get(node.follows_address))
        for node in nodes
    )


def _with_lag(nodes: Sequence[NodeFacts]) -> tuple[NodeFacts, ...]:
    offsets = {node.id: node.offset for node in nodes}

    def lag(node: NodeFacts) -> int | None:
        ahead = offsets.get(node.follows) if node.follows else None
        if ahead is None or node.offset is None:
            return None
        return max(0, ahead - node.offset)

    return tuple(replace(node, lag_bytes=lag(node)) for node in nodes)
