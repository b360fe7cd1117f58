"""Servers that lowered `maxclients` because their limit of open files is too small. Pure."""

from rlctl.observe.model import Observed, Role
from rlctl.plan.desired import Desired
from rlctl.render.redis_conf import MAXCLIENTS, max_clients
from rlctl.topology.nodes import NodeName


def lowered_maxclients(desired: Desired, observed: Observed) -> dict[NodeName, int]:
    """Return the data nodes whose `maxclients` is below the topology's, each with the value in force."""
    found = {node.name: node.settings.get(MAXCLIENTS, "") for node in observed.up if node.role is not Role.SENTINEL}
    wanted = max_clients(desired.topology)
    return {name: int(most) for name, most in found.items() if most.isdecimal() and int(most) < wanted}
