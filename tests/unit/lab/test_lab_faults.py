"""Cuts at several places: one that does not answer keeps no other from being cut open again."""

from dataclasses import dataclass, field

import pytest

from rlctl.errors import Unreachable
from rlctl.lab.partition import isolation, removal_rules, table_name
from rlctl.lab.partitioner import NetworkPartitioner, ReplicationPartitioner
from rlctl.topology.nodes import NodeSpec, data_nodes
from tests.unit import fleets

NODES = data_nodes(fleets.cluster(shards=3, replicas=1))


@dataclass
class FakeGate:
    nodes: tuple[NodeSpec, ...]
    is_gone: bool = False
    applied: list[str] = field(default_factory=list)

    def prepare(self, undo: str) -> None:
        self.applied.append(f"prepared {undo}")

    def apply(self, rules: str) -> None:
        if self.is_gone:
            raise Unreachable("gone", hint="wait")
        self.applied.append(rules)

    def listing(self) -> str:
        if self.is_gone:
            raise Unreachable("gone", hint="wait")
        return "" if self.applied[-1:] == [removal_rules("r1")] else f"table inet {table_name('r1')}"

    def close(self) -> None:
        self.applied.append("closed")


class FakeReplication(ReplicationPartitioner):
    def __init__(self) -> None:
        self.method = "switches"
        self.healed = 0

    def heal(self) -> None:
        self.healed += 1

    def residue(self) -> list[str]:
        return []


def test_a_place_that_is_gone_keeps_no_other_from_being_mended() -> None:
    gates = [FakeGate((node,), is_gone=node.index == 1) for node in NODES[:3]]
    replication = FakeReplication()
    faults = NetworkPartitioner(replication, gates, "r1", "here")
    faults.heal()

    assert [gate.applied for gate in gates] == [[removal_rules("r1")], [], [removal_rules("r1")]]
    assert replication.healed == 1
    assert list(faults.residue()) == ["node-1: perhaps packet rules of this run (gone)"]


def test_only_the_places_of_those_that_are_alone_are_cut() -> None:
    gates = [FakeGate((node,)) for node in NODES[:3]]
    faults = NetworkPartitioner(FakeReplication(), gates, "r1", "here")
    faults.prepare(NODES[:1])
    faults.cut(isolation(NODES[:1], NODES, []))

    assert [len(gate.applied) for gate in gates] == [2, 0, 0]
    assert next(iter(faults.residue())) == "node-0: packet rules of this run"


def test_a_cut_that_is_not_in_effect_is_an_error() -> None:
    faults = NetworkPartitioner(FakeReplication(), [FakeGate(NODES[:1], is_gone=True)], "r1", "here")
    with pytest.raises(Unreachable, match="gone"):
        faults.cut(isolation(NODES[:1], NODES, []))
