"""Which nodes shall not hear each other, and the packet rules that see to it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlctl.drills.model import Flow
from rlctl.topology.nodes import NodeSpec

TABLE = "rlctl_drill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grudge:
    """Pairs of nodes that do not hear each other; of a replication cut the first is the primary.

    Clients have addresses too: `shut_out` are those that stand with the second ones.
    """

    flow: Flow
    pairs: tuple[tuple[NodeSpec, NodeSpec], ...]
    shut_out: tuple[str, ...] = ()

    def describe(self) -> str:
        """For people."""
        one = sorted({first.name for first, _ in self.pairs})
        other = sorted({second.name for _, second in self.pairs})
        what = "replication" if self.flow is Flow.REPLICATION else "every flow"
        return f"{what} between {', '.join(one)} and {', '.join(other)}"


def replication_cut(primary: NodeSpec, replicas: Iterable[NodeSpec]) -> Grudge:
    """The replicas get no more data; clients, bus and sentinels go on."""
    return Grudge(flow=Flow.REPLICATION, pairs=tuple((primary, replica) for replica in replicas))


def isolation(alone: Sequence[NodeSpec], everybody: Sequence[NodeSpec], clients: Sequence[str]) -> Grudge:
    """Some nodes hear only each other, and the others, with these clients, hear only the others."""
    rest = [spec for spec in everybody if spec not in alone]
    pairs = tuple((one, other) for one in alone for other in rest)
    return Grudge(flow=Flow.EVERYTHING, pairs=pairs, shut_out=tuple(clients))


def rules(grudge: Grudge, run: str) -> str:
    """One table of our own that drops what arrives; packets are told apart by their addresses."""
    drops = "\n".join(_drops(grudge))
    return (
        f"table inet {TABLE}_{run} {{\n"
        "chain cut {\n"
        "type filter hook input priority 0; policy accept;\n"
        f"{drops}\n"
        "}\n"
        "}\n"
    )


def no_rules(run: str) -> str:
    """Removes the table; naming it first makes that right when it is gone already."""
    return f"table inet {TABLE}_{run}\ndelete table inet {TABLE}_{run}\n"


def _drops(grudge: Grudge) -> Iterable[str]:
    if grudge.flow is Flow.EVERYTHING:
        alone = {one.address for one, _ in grudge.pairs}
        pairs = {(one.address, other.address) for one, other in grudge.pairs}
        pairs |= {(address, client) for address in alone for client in grudge.shut_out}
        both_ways = sorted(pairs | {(second, first) for first, second in pairs})
        listed = ", ".join(f"{first} . {second}" for first, second in both_ways)
        yield f"ip saddr . ip daddr {{ {listed} }} drop"
        return
    for primary, replica in grudge.pairs:
        yield f"ip saddr {replica.address} ip daddr {primary.address} tcp dport {primary.port} drop"
        yield f"ip saddr {primary.address} ip daddr {replica.address} tcp sport {primary.port} drop"
