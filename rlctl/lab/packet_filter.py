"""Opens what a run beside other people can break: packet filters in containers and on hosts, or Redis' own switches."""

import contextlib
from dataclasses import dataclass

from rlctl.assets import asset_folder
from rlctl.errors import TimedOut, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.lab.partitioner import Gate, NetworkPartitioner, Partitioner, ReplicationPartitioner, SandboxPartitioner
from rlctl.render.compose import container_name
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import PacketFilter, own_packet_filter
from rlctl.system.sidecar import Sidecar, Sidecars
from rlctl.system.ssh import socket_folder
from rlctl.targets.hosts.shells import HostShells
from rlctl.topology.model import TargetName
from rlctl.topology.nodes import NodeSpec, all_nodes


def open_sandbox_partitioner(run: str) -> Partitioner:
    """Cuts by packet rules in the network namespace that this process is in."""
    return SandboxPartitioner(own_packet_filter(ProcessRunner()), run)


def open_partitioner(fleet: FleetSession, table: str, lease_s: float) -> Partitioner:
    """What can be cut where this fleet's target places nodes; every cut ends by itself after `lease_s`."""
    replication = ReplicationPartitioner(fleet)
    match fleet.topology.target:
        case TargetName.LOCAL:
            return replication
        case TargetName.DOCKER:
            gates = _container_gates(fleet, table, lease_s)
            return NetworkPartitioner(replication, gates, table, "in the containers' networks")
        case TargetName.HOSTS:
            gates = _host_gates(fleet, table, lease_s)
            return NetworkPartitioner(replication, gates, table, "on the hosts")


def _container_gates(fleet: FleetSession, run: str, lease_s: float) -> list[Gate]:
    from rlctl.system.docker import DockerEngine  # noqa: PLC0415  the SDK costs start-up time that only Docker pays

    runner = ProcessRunner()
    sidecars = Sidecars(DockerEngine(runner), runner, run)
    base, found = fleet.topology.docker.image, sidecars.found()
    return [
        ContainerPacketFilter(
            nodes=(spec,),
            fleet=fleet.topology.name,
            sidecars=sidecars,
            base=base,
            lease_s=lease_s,
            sidecar=found.get(spec.name),
        )
        for spec in all_nodes(fleet.topology)
    ]


def _host_gates(fleet: FleetSession, run: str, lease_s: float) -> list[Gate]:
    shells = HostShells(fleet.topology, socket_folder(fleet.home.root))
    nodes: dict[str, list[NodeSpec]] = {}
    for spec in all_nodes(fleet.topology):
        nodes.setdefault(spec.host or "", []).append(spec)
    return [
        HostPacketFilter(nodes=tuple(specs), host=host, shells=shells, run=run, lease_s=lease_s)
        for host, specs in nodes.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPacketFilter:
    """The way into one host's network: packet rules of our own, that a timer of its systemd removes in the end."""

    nodes: tuple[NodeSpec, ...]
    host: str
    shells: HostShells
    run: str
    lease_s: float

    def prepare(self, undo: str) -> None:
        """Set the timer."""
        self.shells.run(
            self.host,
            f"systemd-run --quiet --unit={self._timer} --on-active={self.lease_s:g} "
            f"--timer-property=AccuracySec=100ms /bin/sh -c 'printf %s \"$0\" | nft -f -' '{undo}'",
        )

    def apply(self, rules: str) -> None:
        """Put rules in force."""
        self.shells.run(self.host, f"nft -f - <<'RULES'\n{rules}RULES")

    def listing(self) -> str:
        """What is in force there."""
        return self.shells.run(self.host, "nft list tables")

    def close(self) -> None:
        """The timer is needed no more; a host that is gone keeps it, and is healed by it."""
        with contextlib.suppress(Unreachable, TimedOut):
            self.shells.run(self.host, f"systemctl stop {self._timer}.timer || :")
        self.shells.close(self.host)

    @property
    def _timer(self) -> str:
        return f"rlctl-drill-{self.run}"


@dataclass(slots=True, kw_only=True)
class ContainerPacketFilter:
    """The way into one container's network: by a sidecar, as the server's image has no packet filter and no right."""

    nodes: tuple[NodeSpec, ...]
    fleet: str
    sidecars: Sidecars
    base: str
    lease_s: float
    sidecar: Sidecar | None
    packets: PacketFilter | None = None

    def prepare(self, undo: str) -> None:
        """Start the sidecar; it undoes and goes by itself when the lease is over."""
        if self.sidecar is None:
            image = self.sidecars.image(self.base, asset_folder("compose") / "faults")
            [spec] = self.nodes
            container = container_name(self.fleet, spec.name)
            self.sidecar = self.sidecars.start(image, container, spec.name, undo=undo, after_s=self.lease_s)
        self.packets = self.sidecars.packet_filter(self.sidecar)
        self.packets.prepare()

    def apply(self, rules: str) -> None:
        """Put rules in force; where no sidecar ever was, or is any more, nothing is in force."""
        if self.sidecar is None:
            return
        if self.packets is None:
            self.packets = self.sidecars.packet_filter(self.sidecar)
        try:
            self.packets.apply(rules)
        except Unreachable:
            if self.sidecar.node in self.sidecars.found():
                raise
            self.sidecar = self.packets = None

    def listing(self) -> str:
        """What is in force there."""
        return "" if self.packets is None else self.packets.listing()

    def close(self) -> None:
        """Remove the sidecar."""
        if self.packets is not None:
            self.packets.close()
        if self.sidecar is not None:
            self.sidecars.remove(self.sidecar)
        self.sidecar = self.packets = None
