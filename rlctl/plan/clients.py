"""Servers that take fewer clients than the topology asks for, as their limit of open files allows no more. Pure."""

from rlctl.observe.model import Observed, Role
from rlctl.plan.desired import Desired
from rlctl.render.redis_conf import MAXCLIENTS, max_clients
from rlctl.topology.nodes import NodeName


def lowered_maxclients(desired: Desired, observed: Observed) -> dict[NodeName, int]:
    """The data nodes that take fewer, each with its own `maxclients`."""
    found = {node.name: node.settings.get(MAXCLIENTS, "") for node in observed.up if node.role is not Role.SENTINEL}
    wanted = max_clients(desired.topology)
    return {name: int(most) for name, most in found.items() if most.isdecimal() and int(most) < wanted}
