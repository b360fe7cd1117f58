"""Which nodes shall not hear each other, and the packet rules that see to it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlctl.lab.roles import LabRole, Roles
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeSpec

TABLE = "rlctl_drill"


class Flow(StrEnum):
    """What a cut stops: the copying of data only, or every word between the nodes."""

    REPLICATION = "replication"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSource:
    """Where a client's packets come from, as packet rules can tell: an address of its own, or ports of its own."""

    address: str = ""
    ports: tuple[int, int] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ClientSource":
        """As a client's process gets it on its standard input."""
        ports = data["ports"]
        return cls(address=data["address"], ports=None if ports is None else (ports[0], ports[1]))


ANYWHERE = ClientSource()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Pairs of nodes that do not hear each other; of a replication cut the first is the primary.

    Clients stand somewhere too: `shut_out` is where those are that stand with the second ones.
    """

    flow: Flow
    pairs: tuple[tuple[NodeSpec, NodeSpec], ...]
    shut_out: tuple[ClientSource, ...] = ()

    @property
    def alone(self) -> tuple[NodeSpec, ...]:
        """The first ones, each once."""
        return tuple(dict.fromkeys(first for first, _ in self.pairs))

    @property
    def rest(self) -> tuple[NodeSpec, ...]:
        """The second ones, each once."""
        return tuple(dict.fromkeys(second for _, second in self.pairs))

    def describe(self) -> str:
        """For people."""
        one, other = sorted(spec.name for spec in self.alone), sorted(spec.name for spec in self.rest)
        what = "replication" if self.flow is Flow.REPLICATION else "every flow"
        return f"{what} between {', '.join(one)} and {', '.join(other)}"


def replication_cut(primary: NodeSpec, replicas: Iterable[NodeSpec]) -> Partition:
    """The replicas get no more data; clients, bus and sentinels go on."""
    return Partition(flow=Flow.REPLICATION, pairs=tuple((primary, replica) for replica in replicas))


def isolation(alone: Sequence[NodeSpec], all_nodes: Sequence[NodeSpec], clients: Sequence[ClientSource]) -> Partition:
    """Some nodes hear only each other, and the others, with these clients, hear only the others."""
    rest = [spec for spec in all_nodes if spec not in alone]
    pairs = tuple((one, other) for one in alone for other in rest)
    return Partition(flow=Flow.EVERYTHING, pairs=pairs, shut_out=tuple(clients))


def partition_by_role(
    roles: Roles,
    flow: Flow,
    role: LabRole,
    *,
    clients: Sequence[ClientSource] = (),
    promoted: Sequence[NodeSpec] = (),
) -> Partition:
    """Cut the replication of a role's nodes, or cut them off with their hosts; `clients` are on the other side."""
    if flow is Flow.REPLICATION:
        return replication_cut(roles.victim, roles.of(role, promoted))
    return isolation(roles.cut_off(role, promoted), roles.all_nodes, clients)


def rules(partition: Partition, run: str) -> str:
    """Where all nodes are in one network namespace: packets are told apart by their addresses."""
    return _table(run, input_rules=_drops(partition))


def island_rules(partition: Partition, run: str) -> str:
    """At the place of the nodes that are alone: nothing of the fleet's comes in from the rest, or goes out to it.

    Places may be shared with others, and with this very connection: only the fleet's ports are touched.
    """
    rest = ", ".join(sorted({spec.address for spec in partition.rest}))
    ports = ", ".join(map(str, sorted({port for spec in (*partition.alone, *partition.rest) for port in _ports(spec)})))
    own = ", ".join(str(port) for port in sorted({spec.port for spec in partition.alone}))
    clients = [source.ports for source in partition.shut_out if source.ports is not None]
    return _table(
        run,
        input_rules=[
            *(f"ip saddr {{ {rest} }} tcp {end} {{ {ports} }} drop" for end in ("dport", "sport")),
            *(f"tcp sport {first}-{last} tcp dport {{ {own} }} drop" for first, last in clients),
        ],
        output_rules=[f"ip daddr {{ {rest} }} tcp {end} {{ {ports} }} drop" for end in ("dport", "sport")],
    )


def no_rules(run: str) -> str:
    """Removes the table; naming it first makes that right when it is gone already."""
    return f"table inet {table_of(run)}\ndelete table inet {table_of(run)}\n"


def table_of(run: str) -> str:
    """The name of a run's own table."""
    return f"{TABLE}_{run}"


def _table(run: str, *, input_rules: Iterable[str], output_rules: Iterable[str] = ()) -> str:
    chains = "".join(_chain(hook, drops) for hook, drops in (("input", input_rules), ("output", output_rules)))
    return f"table inet {table_of(run)} {{\n{chains}}}\n"


def _chain(hook: str, drops: Iterable[str]) -> str:
    lines = "".join(f"{drop}\n" for drop in drops)
    return f"chain cut_{hook} {{\ntype filter hook {hook} priority -10; policy accept;\n{lines}}}\n" if lines else ""


def _ports(spec: NodeSpec) -> tuple[int, ...]:
    return (spec.port,) if spec.is_sentinel else (spec.port, spec.port + BUS_PORT_OFFSET)


def _drops(partition: Partition) -> Iterable[str]:
    if partition.flow is Flow.EVERYTHING:
        alone = {one.address for one in partition.alone}
        pairs = {(one.address, other.address) for one, other in partition.pairs}
        pairs |= {(address, client.address) for address in alone for client in partition.shut_out}
        both_ways = sorted(pairs | {(second, first) for first, second in pairs})
        listed = ", ".join(f"{first} . {second}" for first, second in both_ways)
        yield f"ip saddr . ip daddr {{ {listed} }} drop"
        return
    for primary, replica in partition.pairs:
        yield f"ip saddr {replica.address} ip daddr {primary.address} tcp dport {primary.port} drop"
        yield f"ip saddr {primary.address} ip daddr {replica.address} tcp sport {primary.port} drop"
