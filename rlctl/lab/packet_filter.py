"""Packet filters in containers and on hosts, and the choice of partitioner for each target."""

import contextlib
from dataclasses import dataclass

from rlctl.assets import asset_folder
from rlctl.errors import TimedOut, Unreachable
from rlctl.execute.session import FleetSession
from rlctl.lab.partitioner import (
    NetworkPartitioner,
    Partitioner,
    RemotePacketFilter,
    ReplicationPartitioner,
    SandboxPartitioner,
)
from rlctl.render.compose import container_name
from rlctl.system.process import ProcessRunner
from rlctl.system.sandbox import PacketFilter, own_packet_filter
from rlctl.system.sidecar import Sidecar, Sidecars
from rlctl.system.ssh import socket_folder
from rlctl.targets.hosts.shells import HostShells
from rlctl.topology.model import TargetName
from rlctl.topology.nodes import NodeSpec, all_nodes


def open_sandbox_partitioner(run: str) -> Partitioner:
    """Partitioner for the network namespace of this process."""
    return SandboxPartitioner(own_packet_filter(ProcessRunner()), run)


def open_partitioner(fleet: FleetSession, table: str, lease_s: float) -> Partitioner:
    """Partitioner for a fleet's target. A timer removes its packet rules after `lease_s`."""
    replication = ReplicationPartitioner(fleet)
    match fleet.topology.target:
        case TargetName.LOCAL:
            return replication
        case TargetName.DOCKER:
            filters = _container_filters(fleet, table, lease_s)
            return NetworkPartitioner(replication, filters, table, "in the containers' networks")
        case TargetName.HOSTS:
            filters = _host_filters(fleet, table, lease_s)
            return NetworkPartitioner(replication, filters, table, "on the hosts")


def _container_filters(fleet: FleetSession, run: str, lease_s: float) -> list[RemotePacketFilter]:
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


def _host_filters(fleet: FleetSession, run: str, lease_s: float) -> list[RemotePacketFilter]:
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
    """The packet filter of one host. A systemd timer on the host removes the run's rules after `lease_s`."""

    nodes: tuple[NodeSpec, ...]
    host: str
    shells: HostShells
    run: str
    lease_s: float

    def prepare(self, undo: str) -> None:
        self.shells.run(
            self.host,
            f"systemd-run --quiet --unit={self._timer} --on-active={self.lease_s:g} "
            f"--timer-property=AccuracySec=100ms /bin/sh -c 'printf %s \"$0\" | nft -f -' '{undo}'",
        )

    def apply(self, rules: str) -> None:
        self.shells.run(self.host, f"nft -f - <<'RULES'\n{rules}RULES")

    def listing(self) -> str:
        return self.shells.run(self.host, "nft list tables")

    def close(self) -> None:
        """Stop the timer. If the host does not answer, the timer on the host still heals it after the lease."""
        with contextlib.suppress(Unreachable, TimedOut):
            self.shells.run(self.host, f"systemctl stop {self._timer}.timer || :")
        self.shells.close(self.host)

    @property
    def _timer(self) -> str:
        return f"rlctl-drill-{self.run}"


@dataclass(slots=True, kw_only=True)
class ContainerPacketFilter:
    """The packet filter of one container.

    The filter runs in a sidecar, because the server's container lacks the `nft` program and the NET_ADMIN capability.
    """

    nodes: tuple[NodeSpec, ...]
    fleet: str
    sidecars: Sidecars
    base: str
    lease_s: float
    sidecar: Sidecar | None
    packets: PacketFilter | None = None

    def prepare(self, undo: str) -> None:
        """Start the sidecar, which applies `undo` and ends by itself after `lease_s`."""
        if self.sidecar is None:
            image = self.sidecars.image(self.base, asset_folder("compose") / "faults")
            [spec] = self.nodes
            container = container_name(self.fleet, spec.name)
            self.sidecar = self.sidecars.start(image, container, spec.name, undo=undo, after_s=self.lease_s)
        self.packets = self.sidecars.packet_filter(self.sidecar)
        self.packets.prepare()

    def apply(self, rules: str) -> None:
        """Apply rules. Does nothing without a sidecar, because no rules are in force then."""
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
        return "" if self.packets is None else self.packets.listing()

    def close(self) -> None:
        if self.packets is not None:
            self.packets.close()
        if self.sidecar is not None:
            self.sidecars.remove(self.sidecar)
        self.sidecar = self.packets = None
