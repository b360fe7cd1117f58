"""Fences: a fenced node refuses writes from every client, but still replicates and answers reads. Pure."""

from typing import Final

from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.render.redis_conf import tunables
from rlctl.topology.model import Topology
from rlctl.topology.nodes import data_nodes

FENCE_SETTING: Final = "min-replicas-to-write"
# More replicas than any primary has. With this value the server therefore refuses every write (NOREPLICAS), including
# writes by scripts.
FENCED_VALUE: Final = "1000000"


def is_fenced(node: NodeFacts) -> bool:
    return node.is_up and node.settings.get(FENCE_SETTING) == FENCED_VALUE


def fenced(observed: Observed) -> tuple[NodeFacts, ...]:
    """The fenced nodes, in the topology's order."""
    return tuple(node for node in observed.nodes if is_fenced(node))


def lacks_replicas(node: NodeFacts) -> bool:
    """Whether a primary refuses writes because fewer replicas keep up than `min-replicas-to-write` requires."""
    wanted = node.settings.get(FENCE_SETTING, "0")
    return node.good_replicas is not None and wanted.isdigit() and node.good_replicas < int(wanted)


def unfenced_value(topology: Topology) -> str:
    """The value of `min-replicas-to-write` in the topology."""
    return tunables(topology)[FENCE_SETTING]


def loss(topology: Topology, observed: Observed, node: NodeFacts) -> str:
    """Describe what the fleet loses while this node is fenced."""
    text = f"{node.name} refuses every write until `rlctl unfence {node.name}`"
    if node.role is not Role.PRIMARY:
        return f"{text}; it is a replica now, and would refuse them once promoted"
    shards = {spec.name: spec.shard for spec in data_nodes(topology)}
    others = [
        other
        for other in observed.up
        if other.id != node.id
        and other.role is Role.PRIMARY
        and shards[other.name] == shards[node.name]
        and not is_fenced(other)
    ]
    alone = f"; no other primary of shard {shards[node.name]} answers, so its limits cannot be decided meanwhile"
    return text if others else text + alone
