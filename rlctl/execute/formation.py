"""Form a fleet through the Redis protocol, the same way on every target."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rlctl.errors import TimedOut
from rlctl.execute.stop import StopFlag
from rlctl.observe.connect import Connector
from rlctl.plan.failover import FailoverMode, failover_command
from rlctl.plan.steps import AssignSlots, Configure, Meet, MonitorPrimary, Replicate, SetEpoch, TakeOver
from rlctl.render.sentinel_conf import sentinel_login, sentinel_options
from rlctl.secrets import FleetSecrets
from rlctl.system.clock import Clock, wait_until
from rlctl.system.redis import CommandFailed, LinkFailure
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeId, NodeName, NodeSpec, all_nodes, node_id

REPLICATE_S = 30.0
# Answer timeout of commands that change a node. Queries have a shorter timeout, after which a node counts as hung.
CHANGE_S = 15.0
# Send MEET again after this time: a node that stalled for longer than its time-out has dropped the handshake, and
# servers do not repeat MEET by themselves.
MEET_AGAIN_S = 2.0
# Error of a node that does not know its primary yet. After MEET, the node learns of its primary by gossip, which takes
# a fraction of a second.
_PRIMARY_NOT_YET_KNOWN = "Unknown node"
# Error text by the name of the node or host.
Errors = dict[str, str]
Command = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Formation:
    """Sends the commands that form a fleet; each method returns the errors by node."""

    topology: Topology
    secrets: FleetSecrets
    connector: Connector
    clock: Clock
    stop: StopFlag

    def set_epochs(self, steps: Sequence[SetEpoch]) -> Errors:
        """Send CLUSTER SET-CONFIG-EPOCH."""
        return self._send((step.node, [("CLUSTER", "SET-CONFIG-EPOCH", step.epoch)]) for step in steps)

    def meet(self, steps: Sequence[Meet]) -> Errors:
        """Send CLUSTER MEET; the commands for one node are sent together."""
        specs = self._specs()
        return self._send((step.node, [meet_command(specs[peer]) for peer in step.peers]) for step in steps)

    def assign_slots(self, steps: Sequence[AssignSlots]) -> Errors:
        """Send CLUSTER ADDSLOTSRANGE, one atomic command for each node."""
        return self._send(
            (step.node, [("CLUSTER", "ADDSLOTSRANGE", *(edge for edges in step.slots for edge in edges))])
            for step in steps
        )

    def replicate(self, steps: Sequence[Replicate]) -> Errors:
        """Send CLUSTER REPLICATE, and repeat it until each node knows its primary.

        In a Sentinel fleet, send REPLICAOF and CONFIG REWRITE instead.
        """
        if self.topology.kind is Kind.SENTINEL:
            specs = self._specs()
            return self._send((step.node, _replicaof(specs[step.primary])) for step in steps)
        return self._replicate_in_cluster(steps)

    def take_over(self, step: TakeOver) -> Errors:
        """Send CLUSTER FAILOVER TAKEOVER."""
        return self._send([(step.node, [failover_command(self.topology, FailoverMode.TAKEOVER)])])

    def monitor(self, steps: Sequence[MonitorPrimary]) -> Errors:
        """Send SENTINEL MONITOR, then SENTINEL SET for the options and the log-in."""
        specs = self._specs()
        return self._send((step.node, self._monitor(specs[step.primary])) for step in steps)

    def configure(self, steps: Sequence[Configure]) -> Errors:
        """Send CONFIG SET to data nodes, and SENTINEL SET to sentinels."""
        specs = self._specs()
        return self._send((step.node, [self._setting(specs[step.node], step)]) for step in steps)

    def _setting(self, spec: NodeSpec, step: Configure) -> Command:
        if spec.is_sentinel:
            return "SENTINEL", "SET", self.topology.name, step.setting, step.value
        return "CONFIG", "SET", step.setting, step.value

    def _monitor(self, primary: NodeSpec) -> list[Command]:
        name = self.topology.name
        options = sentinel_options(self.topology)
        commands: list[Command] = [
            ("SENTINEL", "MONITOR", name, primary.address, primary.port, options.pop("quorum")),
            *(("SENTINEL", "SET", name, option, value) for option, value in options.items()),
        ]
        if self.topology.security.acl:
            commands += [("SENTINEL", "SET", name, option, value) for option, value in sentinel_login(self.secrets)]
        return commands

    def _replicate_in_cluster(self, steps: Sequence[Replicate]) -> Errors:
        specs, waiting = self._specs(), {step.node: step.primary for step in steps}
        refused: Errors = {}
        met_s = self.clock.monotonic()

        def all_answered() -> bool:
            nonlocal met_s
            self.stop.check()
            for node, primary in list(waiting.items()):
                refused.pop(node, None)
                refused.update(self._send([(node, [("CLUSTER", "REPLICATE", self._id(primary))])]))
                if _PRIMARY_NOT_YET_KNOWN not in refused.get(node, ""):
                    del waiting[node]
            if waiting and self.clock.monotonic() - met_s >= MEET_AGAIN_S:
                met_s = self.clock.monotonic()
                self._send((node, [meet_command(specs[primary])]) for node, primary in waiting.items())
            return not waiting

        # After a time-out, `refused` contains the errors to report.
        with contextlib.suppress(TimedOut):
            wait_until(all_answered, timeout_s=REPLICATE_S, clock=self.clock, what="replicas accepting their primary")
        return refused

    def _send(self, batches: Iterable[tuple[NodeName, list[Command]]]) -> Errors:
        specs = self._specs()
        errors: Errors = {}
        for node, commands in batches:
            try:
                replies = self.connector.link(specs[node]).pipeline(commands, answer_s=CHANGE_S)
            except LinkFailure as failure:
                errors[node] = str(failure)
                continue
            refused = [str(reply) for reply in replies if isinstance(reply, CommandFailed)]
            if refused:
                errors[node] = refused[0]
        return errors

    def _specs(self) -> Mapping[NodeName, NodeSpec]:
        return {spec.name: spec for spec in all_nodes(self.topology)}

    def _id(self, name: NodeName) -> NodeId:
        return node_id(self.secrets.fleet_id, name)


def meet_command(peer: NodeSpec) -> Command:
    """Return the command that makes a node meet `peer`."""
    return "CLUSTER", "MEET", peer.address, peer.port, peer.port + BUS_PORT_OFFSET


def _replicaof(primary: NodeSpec) -> list[Command]:
    return [("REPLICAOF", primary.address, primary.port), ("CONFIG", "REWRITE")]
