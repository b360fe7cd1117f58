"""Network partitions between nodes, and the packet rules that make them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlctl.lab.roles import LabRole, Roles
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeSpec

TABLE = "rlctl_drill"


class Flow(StrEnum):
    """The traffic that a cut stops: replication only, or all traffic between the nodes."""

    REPLICATION = "replication"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSource:
    """The addresses or ports that a client's packets come from, so that packet rules can match them."""

    address: str = ""
    ports: tuple[int, int] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ClientSource":
        """Read a source from the JSON that the engine wrote to a client's standard input."""
        ports = data["ports"]
        return cls(address=data["address"], ports=None if ports is None else (ports[0], ports[1]))


ANYWHERE = ClientSource()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Pairs of nodes that lose contact. In a replication cut, the first node of each pair is the primary.

    The clients in `blocked_clients` lose contact with the first node of every pair too.
    """

    flow: Flow
    pairs: tuple[tuple[NodeSpec, NodeSpec], ...]
    blocked_clients: tuple[ClientSource, ...] = ()

    @property
    def isolated(self) -> tuple[NodeSpec, ...]:
        """The first node of every pair, without duplicates."""
        return tuple(dict.fromkeys(first for first, _ in self.pairs))

    @property
    def rest(self) -> tuple[NodeSpec, ...]:
        """The second node of every pair, without duplicates."""
        return tuple(dict.fromkeys(second for _, second in self.pairs))

    def describe(self) -> str:
        """Describe the flow and the nodes, for messages."""
        one, other = sorted(spec.name for spec in self.isolated), sorted(spec.name for spec in self.rest)
        what = "replication" if self.flow is Flow.REPLICATION else "every flow"
        return f"{what} between {', '.join(one)} and {', '.join(other)}"


def replication_cut(primary: NodeSpec, replicas: Iterable[NodeSpec]) -> Partition:
    """A partition that stops replication only. Clients, the cluster bus and sentinels still reach every node."""
    return Partition(flow=Flow.REPLICATION, pairs=tuple((primary, replica) for replica in replicas))


def isolation(
    isolated: Sequence[NodeSpec], all_nodes: Sequence[NodeSpec], clients: Sequence[ClientSource]
) -> Partition:
    """A partition that separates some nodes from all other nodes and from `clients`."""
    rest = [spec for spec in all_nodes if spec not in isolated]
    pairs = tuple((one, other) for one in isolated for other in rest)
    return Partition(flow=Flow.EVERYTHING, pairs=pairs, blocked_clients=tuple(clients))


def partition_by_role(
    roles: Roles,
    flow: Flow,
    role: LabRole,
    *,
    clients: Sequence[ClientSource] = (),
    promoted: Sequence[NodeSpec] = (),
) -> Partition:
    """The partition that stops the replication of a role's nodes, or isolates these nodes.

    On hosts, the other nodes of the same hosts are isolated too. `clients` cannot reach isolated nodes.
    """
    if flow is Flow.REPLICATION:
        return replication_cut(roles.victim, roles.of(role, promoted))
    return isolation(roles.cut_off(role, promoted), roles.all_nodes, clients)


def rules(partition: Partition, run: str) -> str:
    """Packet rules for a network namespace that contains all nodes, each with its own address."""
    return _table(run, input_rules=_drops(partition))


def isolation_rules(partition: Partition, run: str) -> str:
    """Packet rules for the container or host of the isolated nodes: drop the fleet's traffic with all other nodes.

    The rules match only the fleet's ports, since a host also carries other traffic, such as rlctl's connection.
    """
    rest = ", ".join(sorted({spec.address for spec in partition.rest}))
    ports = ", ".join(
        map(str, sorted({port for spec in (*partition.isolated, *partition.rest) for port in _ports(spec)}))
    )
    own = ", ".join(str(port) for port in sorted({spec.port for spec in partition.isolated}))
    clients = [source.ports for source in partition.blocked_clients if source.ports is not None]
    return _table(
        run,
        input_rules=[
            *(f"ip saddr {{ {rest} }} tcp {end} {{ {ports} }} drop" for end in ("dport", "sport")),
            *(f"tcp sport {first}-{last} tcp dport {{ {own} }} drop" for first, last in clients),
        ],
        output_rules=[f"ip daddr {{ {rest} }} tcp {end} {{ {ports} }} drop" for end in ("dport", "sport")],
    )


def removal_rules(run: str) -> str:
    """Packet rules that remove a run's table.

    The rules declare the table before they delete it, so that they also succeed if the table is missing.
    """
    return f"table inet {table_name(run)}\ndelete table inet {table_name(run)}\n"


def table_name(run: str) -> str:
    """Name of a run's nftables table."""
    return f"{TABLE}_{run}"


def _table(run: str, *, input_rules: Iterable[str], output_rules: Iterable[str] = ()) -> str:
    chains = "".join(_chain(hook, drops) for hook, drops in (("input", input_rules), ("output", output_rules)))
    return f"table inet {table_name(run)} {{\n{chains}}}\n"


def _chain(hook: str, drops: Iterable[str]) -> str:
    lines = "".join(f"{drop}\n" for drop in drops)
    return f"chain cut_{hook} {{\ntype filter hook {hook} priority -10; policy accept;\n{lines}}}\n" if lines else ""


def _ports(spec: NodeSpec) -> tuple[int, ...]:
    return (spec.port,) if spec.is_sentinel else (spec.port, spec.port + BUS_PORT_OFFSET)


def _drops(partition: Partition) -> Iterable[str]:
    if partition.flow is Flow.EVERYTHING:
        isolated = {one.address for one in partition.isolated}
        pairs = {(one.address, other.address) for one, other in partition.pairs}
        pairs |= {(address, client.address) for address in isolated for client in partition.blocked_clients}
        both_ways = sorted(pairs | {(second, first) for first, second in pairs})
        listed = ", ".join(f"{first} . {second}" for first, second in both_ways)
        yield f"ip saddr . ip daddr {{ {listed} }} drop"
        return
    for primary, replica in partition.pairs:
        yield f"ip saddr {replica.address} ip daddr {primary.address} tcp dport {primary.port} drop"
        yield f"ip saddr {primary.address} ip daddr {replica.address} tcp sport {primary.port} drop"
