"""Injects the faults of drills and rehearsals into a fleet, and heals them."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from rlctl.errors import Unreachable
from rlctl.execute.session import FleetSession
from rlctl.lab.partition import ClientSource, Flow, Partition, partition_by_role, replication_cut
from rlctl.lab.partitioner import Partitioner, ReplicationPartitioner
from rlctl.lab.processes import Interval, Processes, timed
from rlctl.lab.roles import LabRole, Roles
from rlctl.observe.model import Observed, Role
from rlctl.plan.sentinel import believed_primary
from rlctl.system.clock import wait_until
from rlctl.system.redis import CommandFailed, NodeLink, Reply
from rlctl.topology.model import Kind
from rlctl.topology.nodes import NodeSpec

DEADLINE_S = 60.0
LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInjector:
    """Injects faults into the nodes of one fleet, chosen by their roles.

    `far_clients` are the clients that can no longer reach an isolated node.
    """

    fleet: FleetSession
    roles: Roles
    processes: Processes
    partitioner: Partitioner
    far_clients: tuple[ClientSource, ...] = ()

    def planned_partition(self, flow: Flow, role: LabRole, promoted: Sequence[NodeSpec] = ()) -> Partition:
        return partition_by_role(self.roles, flow, role, clients=self.far_clients, promoted=promoted)

    def cut(self, partition: Partition) -> Interval:
        return timed(self.fleet.clock, lambda: self.partitioner.cut(partition))

    def heal(self) -> Interval:
        """Heal every cut. Does not resume paused nodes or start dead nodes."""
        return timed(self.fleet.clock, self.partitioner.heal)

    def lock_replicas_out(self) -> None:
        """Make the victim refuse its replicas: disable their ACL user, or give the replicas a wrong password."""
        ReplicationPartitioner(self.fleet).cut(replication_cut(self.roles.victim, self.roles.replicas))

    def is_promoted(self, observed: Observed) -> bool:
        """Whether a replica has become the primary. In a Sentinel fleet, the sentinels must agree."""
        promoted = {spec.name for spec in self.roles.replicas if observed.node(spec.name).role is Role.PRIMARY}
        if self.fleet.topology.kind is Kind.CLUSTER:
            return bool(promoted)
        return believed_primary(self.fleet.desired(observed), observed).name in promoted

    def wait_until(self, is_shown: Callable[[Observed], bool], what: str) -> None:
        """Observe the fleet until `is_shown` returns True. Raises TimedOut after DEADLINE_S."""
        wait_until(
            lambda: is_shown(self.fleet.observe()),
            timeout_s=DEADLINE_S,
            clock=self.fleet.clock,
            what=what,
            every_s=LOOK_EVERY_S,
        )

    def link(self, spec: NodeSpec) -> NodeLink:
        """Open a new connection, because Sentinel closes the connections of a node that it promotes.

        The caller closes the new connection.
        """
        return self.fleet.connector.separate_link(spec)

    def send(self, spec: NodeSpec, *commands: Sequence[object]) -> list[Reply]:
        """Send commands to a node. Raises Unreachable if the node refuses a command."""
        with closing(self.link(spec)) as link:
            replies = link.pipeline(commands)
        refused = [str(reply) for reply in replies if isinstance(reply, CommandFailed)]
        if refused:
            raise Unreachable(f"{spec.name} refuses a command of the fault: {refused[0]}", hint="see its log")
        return replies
