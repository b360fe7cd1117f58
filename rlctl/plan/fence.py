"""A fence: a data node that refuses every write, whoever sends it, while it replicates and answers reads. Pure."""

from typing import Final

from rlctl.observe.model import NodeFacts, Observed, Role
from rlctl.render.redis_conf import tunables
from rlctl.topology.model import Topology
from rlctl.topology.nodes import data_nodes

FENCE_SETTING: Final = "min-replicas-to-write"
# More replicas than any node will ever have: the server itself then refuses writes, those of scripts too.
FENCED_VALUE: Final = "1000000"


def is_fenced(node: NodeFacts) -> bool:
    """Whether the node stands behind a fence."""
    return node.is_up and node.settings.get(FENCE_SETTING) == FENCED_VALUE


def fenced(observed: Observed) -> tuple[NodeFacts, ...]:
    """The nodes behind a fence, in the topology's order."""
    return tuple(node for node in observed.nodes if is_fenced(node))


def lacks_replicas(node: NodeFacts) -> bool:
    """Whether a primary refuses writes for want of replicas that keep up; it counts them only where it must."""
    wanted = node.settings.get(FENCE_SETTING, "0")
    return node.good_replicas is not None and wanted.isdigit() and node.good_replicas < int(wanted)


def unfenced_value(topology: Topology) -> str:
    """What the setting is without a fence."""
    return tunables(topology)[FENCE_SETTING]


def loss(topology: Topology, observed: Observed, node: NodeFacts) -> str:
    """What a fence takes from the service, for whoever has to agree to it."""
    text = f"{node.name} refuses every write until `rlctl unfence {node.name}`"
    if node.role is not Role.PRIMARY:
        return f"{text}; it is a replica now, and would refuse once it is promoted"
    shards = {spec.name: spec.shard for spec in data_nodes(topology)}
    others = [
        other
        for other in observed.up
        if other.id != node.id
        and other.role is Role.PRIMARY
        and shards[other.name] == shards[node.name]
        and not is_fenced(other)
    ]
    alone = f"; no other primary of shard {shards[node.name]} answers: its limits cannot be decided meanwhile"
    return text if others else text + alone
