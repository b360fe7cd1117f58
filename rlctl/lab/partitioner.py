"""Cuts between nodes, by the means at hand: packet rules in a sandbox, or Redis' own switches beside other people."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from rlctl.errors import RlctlError
from rlctl.execute.session import FleetSession
from rlctl.lab.partition import Flow, Partition, island_rules, no_rules, rules, table_of
from rlctl.secrets import User
from rlctl.system.redis import CommandFailed, LinkFailure, Reply
from rlctl.system.sandbox import PacketFilter
from rlctl.topology.nodes import NodeSpec, data_nodes

# What a replica without ACL is given for a password, so that its primary turns it away.
_WRONG = "rlctl-drill-cut"
T = TypeVar("T")


class Partitioner(Protocol):
    """Cuts between nodes. Each heals by itself when rlctl is killed; `abilities` says which flows can be cut.

    `witnessed` are the flows whose cut a canary would notice.
    """

    method: str
    flows: frozenset[Flow]
    probed_flows: frozenset[Flow]

    def prepare(self, alone: Sequence[NodeSpec], /) -> None:
        """Have ready whatever takes time; these nodes will be cut off from everything."""

    def cut(self, partition: Partition) -> None:
        """Put the cut into effect."""

    def heal(self) -> None:
        """Undo our cuts and nothing else; right at any time, and twice."""

    def residue(self) -> Iterable[str]:
        """What is still in force of ours."""

    def close(self) -> None:
        """Let go of helpers."""


class SandboxPartitioner:
    """Packet rules in the drill's own network namespace; they die with it."""

    method = "packet rules in a private network namespace"
    flows = frozenset(Flow)
    probed_flows = frozenset(Flow)

    def __init__(self, packets: PacketFilter, run: str) -> None:
        self._packets = packets
        self._run = run

    def prepare(self, _alone: Sequence[NodeSpec], /) -> None:
        """Have the packet filter's program wait for its rules."""
        self._packets.prepare()

    def cut(self, partition: Partition) -> None:
        """Drop the packets of these pairs."""
        self._packets.apply(rules(partition, self._run))

    def heal(self) -> None:
        """Remove our table."""
        self._packets.apply(no_rules(self._run))

    def residue(self) -> Iterable[str]:
        """Our table, where it is still there."""
        return [line for line in self._packets.listing().splitlines() if line.startswith("table ")]

    def close(self) -> None:
        """Let the waiting program go."""
        self._packets.close()


class Gate(Protocol):
    """The way into the network of one place, where some of the fleet's nodes are."""

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """Those that are behind it."""

    def prepare(self, undo: str) -> None:
        """Have ready what takes time; whatever happens to us, these rules are applied there in the end."""

    def apply(self, rules: str) -> None:
        """Put rules in force; a place that is gone has none."""

    def listing(self) -> str:
        """What is in force there."""

    def close(self) -> None:
        """Let go of helpers."""


class NetworkPartitioner:
    """Packet rules where the cut-off nodes are; replication alone is cut by Redis' own switches."""

    flows = frozenset(Flow)
    probed_flows = frozenset({Flow.EVERYTHING})

    def __init__(self, replication: "ReplicationPartitioner", gates: Sequence[Gate], run: str, where: str) -> None:
        self.method = f"packet rules {where} for whole nodes; for replication alone {replication.method}"
        self._replication = replication
        self._gates = gates
        self._run = run

    def prepare(self, alone: Sequence[NodeSpec], /) -> None:
        """Open the ways to the nodes that will be cut off."""
        for gate in self._before(alone):
            gate.prepare(no_rules(self._run))

    def cut(self, partition: Partition) -> None:
        """Drop what goes between the two sides, at the places of those that are alone."""
        if partition.flow is Flow.REPLICATION:
            self._replication.cut(partition)
            return
        text = island_rules(partition, self._run)
        for answer in self._everywhere(self._before(partition.alone), lambda gate: gate.apply(text)):
            if isinstance(answer, RlctlError):
                raise answer

    def heal(self) -> None:
        """Remove our table wherever there are nodes of the fleet, and let replicas in.

        A place that does not answer keeps no other from being mended: its own lease mends it, and `residue` names it.
        """
        self._everywhere(self._gates, lambda gate: gate.apply(no_rules(self._run)))
        self._replication.heal()

    def residue(self) -> Iterable[str]:
        """Our table where it is still there or nobody can tell, and replicas that are turned away."""
        tables = self._everywhere(self._gates, lambda gate: table_of(self._run) in gate.listing())
        for gate, found in zip(self._gates, tables, strict=True):
            if isinstance(found, RlctlError):
                yield f"{gate.nodes[0].name}: perhaps our packet rules ({found.message})"
            elif found:
                yield f"{gate.nodes[0].name}: our packet rules"
        yield from self._replication.residue()

    def close(self) -> None:
        """Let go of helpers."""
        for gate in self._gates:
            gate.close()

    def _before(self, nodes: Sequence[NodeSpec]) -> list[Gate]:
        return [gate for gate in self._gates if set(gate.nodes) & set(nodes)]

    @staticmethod
    def _everywhere(gates: Sequence[Gate], do: Callable[[Gate], T]) -> list[T | RlctlError]:
        """At all places at once, for a cut that comes one by one is another fault; or why it was not done there."""

        def tried(gate: Gate) -> T | RlctlError:
            try:
                return do(gate)
            except RlctlError as failure:
                return failure

        with ThreadPoolExecutor(max_workers=max(1, len(gates))) as pool:
            return list(pool.map(tried, gates))


class ReplicationPartitioner:
    """Turns the replicas away at the primary: their user is switched off there, or they get a wrong password.

    Only the replication can be cut like this. A restart heals it as well: nothing of it is written to a file.
    """

    flows = frozenset({Flow.REPLICATION})
    probed_flows: frozenset[Flow] = frozenset()

    def __init__(self, fleet: FleetSession) -> None:
        self._fleet = fleet
        self._has_users = fleet.topology.security.acl
        how = "the replicas' user switched off" if self._has_users else "a wrong password for the replicas"
        self.method = f"Redis' own switches ({how}); no network was cut"

    def prepare(self, _alone: Sequence[NodeSpec], /) -> None:
        """Nothing takes time."""

    def cut(self, partition: Partition) -> None:
        """Turn these replicas away and end their connections."""
        [primary] = partition.alone
        if self._has_users:
            self._send(primary, ("ACL", "SETUSER", User.REPLICA.value, "off"), ("CLIENT", "KILL", "TYPE", "replica"))
            return
        for _primary, replica in partition.pairs:
            self._send(replica, ("CONFIG", "SET", "masterauth", _WRONG))
        self._send(primary, ("CLIENT", "KILL", "TYPE", "replica"))

    def heal(self) -> None:
        """Let replicas in again, everywhere that answers; a node that is dead comes back without the cut."""
        for spec in data_nodes(self._fleet.topology):
            try:
                self._send(spec, self._healing_command())
            except LinkFailure:
                continue

    def residue(self) -> Iterable[str]:
        """Where replicas are still turned away."""
        return [f"{spec.name}: replicas turned away" for spec in data_nodes(self._fleet.topology) if self._is_cut(spec)]

    def close(self) -> None:
        """There are no helpers."""

    def _healing_command(self) -> tuple[str, ...]:
        if self._has_users:
            return "ACL", "SETUSER", User.REPLICA.value, "on"
        return "CONFIG", "SET", "masterauth", ""

    def _is_cut(self, spec: NodeSpec) -> bool:
        question = ("ACL", "GETUSER", User.REPLICA.value) if self._has_users else ("CONFIG", "GET", "masterauth")
        try:
            [answer] = self._send(spec, question)
        except LinkFailure:
            return False
        return "off" in answer[1] if self._has_users else _WRONG in answer

    def _send(self, spec: NodeSpec, *commands: tuple[str, ...]) -> list[Reply]:
        """On a connection of its own: Sentinel ends those that are open when it promotes."""
        link = self._fleet.connector.separate_link(spec)
        try:
            answers = link.pipeline(commands)
        finally:
            link.close()
        for answer in answers:
            if isinstance(answer, CommandFailed):
                raise answer
        return answers
