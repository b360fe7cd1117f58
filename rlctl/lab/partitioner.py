"""Makes and heals partitions: by packet rules, or by Redis' own users and passwords."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from rlctl.errors import RlctlError
from rlctl.execute.session import FleetSession
from rlctl.lab.partition import Flow, Partition, isolation_rules, removal_rules, rules, table_name
from rlctl.secrets import User
from rlctl.system.redis import CommandFailed, LinkFailure, Reply
from rlctl.system.sandbox import PacketFilter
from rlctl.topology.nodes import NodeSpec, data_nodes

# In a fleet without ACL, a replica is cut off by this wrong password, because its primary then refuses the replica.
_WRONG = "rlctl-drill-cut"
T = TypeVar("T")


class Partitioner(Protocol):
    """Makes and heals partitions.

    `flows` are the flows that this partitioner can cut. Probes can only detect a cut of a flow in `probed_flows`.
    """

    method: str
    flows: frozenset[Flow]
    probed_flows: frozenset[Flow]

    def prepare(self, isolated: Sequence[NodeSpec], /) -> None:
        """Start the helpers that a cut of these nodes needs, so that the cut itself is quick."""

    def cut(self, partition: Partition) -> None: ...

    def heal(self) -> None:
        """Undo the run's own cuts. Idempotent."""

    def residue(self) -> Iterable[str]:
        """Describe the run's own cuts that are still in force."""

    def close(self) -> None:
        """Stop the helpers that `prepare` started."""


class SandboxPartitioner:
    """Makes partitions by packet rules in the run's own network namespace. The rules end with the namespace."""

    method = "packet rules in a private network namespace"
    flows = frozenset(Flow)
    probed_flows = frozenset(Flow)

    def __init__(self, packets: PacketFilter, run: str) -> None:
        self._packets = packets
        self._run = run

    def prepare(self, _alone: Sequence[NodeSpec], /) -> None:
        self._packets.prepare()

    def cut(self, partition: Partition) -> None:
        self._packets.apply(rules(partition, self._run))

    def heal(self) -> None:
        self._packets.apply(removal_rules(self._run))

    def residue(self) -> Iterable[str]:
        return [line for line in self._packets.listing().splitlines() if line.startswith("table ")]

    def close(self) -> None:
        self._packets.close()


class RemotePacketFilter(Protocol):
    """The packet filter of one container or host that runs nodes of the fleet."""

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """The nodes whose traffic passes this filter."""

    def prepare(self, undo: str) -> None:
        """Start a helper, which applies the rules in `undo` after the lease, even if rlctl is killed."""

    def apply(self, rules: str) -> None:
        """Apply rules; do nothing if the container is gone."""

    def listing(self) -> str:
        """The rules in force."""

    def close(self) -> None:
        """Stop the helper."""


class NetworkPartitioner:
    """Isolates nodes by packet rules on containers or hosts. Cuts replication alone by Redis' users or passwords."""

    flows = frozenset(Flow)
    probed_flows = frozenset({Flow.EVERYTHING})

    def __init__(
        self, replication: "ReplicationPartitioner", filters: Sequence[RemotePacketFilter], run: str, where: str
    ) -> None:
        self.method = f"packet rules {where} for whole nodes; for replication alone {replication.method}"
        self._replication = replication
        self._filters = filters
        self._run = run

    def prepare(self, isolated: Sequence[NodeSpec], /) -> None:
        for one in self._filters_of(isolated):
            one.prepare(removal_rules(self._run))

    def cut(self, partition: Partition) -> None:
        """Cut replication, or drop all traffic between the two sides by rules at the isolated nodes."""
        if partition.flow is Flow.REPLICATION:
            self._replication.cut(partition)
            return
        text = isolation_rules(partition, self._run)
        for answer in self._on_all(self._filters_of(partition.isolated), lambda one: one.apply(text)):
            if isinstance(answer, RlctlError):
                raise answer

    def heal(self) -> None:
        """Remove the run's table on every container or host, and make the nodes accept replicas again.

        If a host does not answer, the other hosts are still healed. The timer on the host heals this host after the
        lease, and `residue` lists the host until then.
        """
        self._on_all(self._filters, lambda one: one.apply(removal_rules(self._run)))
        self._replication.heal()

    def residue(self) -> Iterable[str]:
        """Describe remaining tables, hosts that could not be queried, and nodes that still refuse replicas."""
        tables = self._on_all(self._filters, lambda one: table_name(self._run) in one.listing())
        for one, found in zip(self._filters, tables, strict=True):
            if isinstance(found, RlctlError):
                yield f"{one.nodes[0].name}: perhaps packet rules of this run ({found.message})"
            elif found:
                yield f"{one.nodes[0].name}: packet rules of this run"
        yield from self._replication.residue()

    def close(self) -> None:
        """Stop the helpers that `prepare` started."""
        for one in self._filters:
            one.close()

    def _filters_of(self, nodes: Sequence[NodeSpec]) -> list[RemotePacketFilter]:
        return [one for one in self._filters if set(one.nodes) & set(nodes)]

    @staticmethod
    def _on_all(filters: Sequence[RemotePacketFilter], do: Callable[[RemotePacketFilter], T]) -> list[T | RlctlError]:
        """Call `do` on all filters in parallel, and return a result or an error for each.

        Calling one filter after another would cut off the nodes at different times, which is a different fault.
        """

        def tried(one: RemotePacketFilter) -> T | RlctlError:
            try:
                return do(one)
            except RlctlError as failure:
                return failure

        with ThreadPoolExecutor(max_workers=max(1, len(filters))) as pool:
            return list(pool.map(tried, filters))


class ReplicationPartitioner:
    """Makes a primary refuse its replicas: disables their ACL user, or gives the replicas a wrong password.

    This partitioner can only cut replication. It changes a node's settings in memory only, so a restart of the node
    heals the cut too.
    """

    flows = frozenset({Flow.REPLICATION})
    probed_flows: frozenset[Flow] = frozenset()

    def __init__(self, fleet: FleetSession) -> None:
        self._fleet = fleet
        self._has_users = fleet.topology.security.acl
        how = "the replicas' user switched off" if self._has_users else "a wrong password for the replicas"
        self.method = f"Redis' own switches ({how}); no network was cut"

    def prepare(self, _alone: Sequence[NodeSpec], /) -> None:
        """Do nothing: there is no helper."""

    def cut(self, partition: Partition) -> None:
        """Make the primary refuse these replicas, and close their connections."""
        [primary] = partition.isolated
        if self._has_users:
            self._send(primary, ("ACL", "SETUSER", User.REPLICA.value, "off"), ("CLIENT", "KILL", "TYPE", "replica"))
            return
        for _primary, replica in partition.pairs:
            self._send(replica, ("CONFIG", "SET", "masterauth", _WRONG))
        self._send(primary, ("CLIENT", "KILL", "TYPE", "replica"))

    def heal(self) -> None:
        """Undo the cut on every node that answers. A restart undoes the cut on a dead node."""
        for spec in data_nodes(self._fleet.topology):
            try:
                self._send(spec, self._healing_command())
            except LinkFailure:
                continue

    def residue(self) -> Iterable[str]:
        return [f"{spec.name}: replicas refused" for spec in data_nodes(self._fleet.topology) if self._is_cut(spec)]

    def close(self) -> None: ...

    def _healing_command(self) -> tuple[str, ...]:
        if self._has_users:
            return "ACL", "SETUSER", User.REPLICA.value, "on"
        return "CONFIG", "SET", "masterauth", ""

    def _is_cut(self, spec: NodeSpec) -> bool:
        command = ("ACL", "GETUSER", User.REPLICA.value) if self._has_users else ("CONFIG", "GET", "masterauth")
        try:
            [answer] = self._send(spec, command)
        except LinkFailure:
            return False
        return "off" in answer[1] if self._has_users else _WRONG in answer

    def _send(self, spec: NodeSpec, *commands: tuple[str, ...]) -> list[Reply]:
        """Send commands over a new connection, because Sentinel closes the connections of a node that it promotes."""
        link = self._fleet.connector.separate_link(spec)
        try:
            answers = link.pipeline(commands)
        finally:
            link.close()
        for answer in answers:
            if isinstance(answer, CommandFailed):
                raise answer
        return answers
