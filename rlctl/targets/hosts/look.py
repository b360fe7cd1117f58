"""The state of a host: builds the request to the host's probe, and parses the probe's answer. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rlctl.errors import RlctlError, Unreachable
from rlctl.observe.model import OnDisk
from rlctl.system.host_facts import (
    HostFacts,
    parse_clock,
    parse_count,
    parse_meminfo,
    parse_port_range,
    parse_reserved_ports,
    parse_thp_mode,
)
from rlctl.targets.hosts.files import DATA, SETTINGS, unit, unit_patterns
from rlctl.targets.remains import SavedFiles, on_disk
from rlctl.topology.model import Kind, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeId, NodeName, NodeSpec

_TAKEN, _NOT_HERE = "EADDRINUSE", "EADDRNOTAVAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """What the probe of one host found: nodes, their processes and files, left-over packages, and the host's facts."""

    placed: tuple[NodeName, ...]
    running_without_folder: tuple[NodeName, ...]
    orphaned: bool
    packages: tuple[str, ...]
    nodes: Mapping[str, Mapping[str, Any]]
    facts: HostFacts

    def disk(self, spec: NodeSpec, own_id: NodeId) -> OnDisk:
        """Process and files of a node whose server does not answer."""
        node = self.nodes[spec.name]
        if node["pid"]:
            return OnDisk(running=True, pid=int(node["pid"]), own_id=own_id)
        port_taken = spec.port + BUS_PORT_OFFSET if node["bind_error"] == _TAKEN else None
        if not node["has_files"]:
            return OnDisk(port_taken=port_taken)
        remains = SavedFiles(
            cluster_conf=str(node["cluster_conf"]),
            sentinel_conf=str(node["sentinel_conf"]),
            has_log=bool(node["has_log"]),
            has_snapshot=bool(node["has_snapshot"]),
        )
        return replace(on_disk(remains, own_id), port_taken=port_taken)

    def lacks_address(self) -> bool:
        """Whether the address that the topology gives the nodes is missing on this host."""
        return any(node["bind_error"] == _NOT_HERE for node in self.nodes.values())


def kept_packages(looks: Mapping[str, HostState | RlctlError]) -> Mapping[str, tuple[str, ...]]:
    """Packages that rlctl installed and that no fleet needs now, by host. Leaves out hosts that could not be read."""
    return {host: look.packages for host, look in looks.items() if isinstance(look, HostState) and look.packages}


def probe_request(topology: Topology, specs: Iterable[NodeSpec]) -> str:
    """The probe's argument for a host that should run these nodes, as JSON without secrets."""
    is_cluster = topology.kind is Kind.CLUSTER
    return json.dumps(
        {
            "settings": str(SETTINGS / topology.name),
            "data": str(DATA / topology.name),
            "patterns": unit_patterns(topology),
            "nodes": {
                spec.name: {
                    "unit": unit(topology, spec.name),
                    "address": spec.address,
                    "bus_port": spec.port + BUS_PORT_OFFSET if is_cluster else 0,
                }
                for spec in specs
            },
        }
    )


def parse_host_state(host: str, text: str, *, between: tuple[float, float]) -> HostState:
    """Parse the probe's output. Raises Unreachable if the output is not valid.

    `between` has this machine's times before and after the call, from which the offset of the host's clock is computed.
    """
    try:
        answer = json.loads(text)
        return HostState(
            placed=tuple(map(NodeName, answer["placed"])),
            running_without_folder=tuple(map(NodeName, answer["running_without_folder"])),
            orphaned=bool(answer["orphaned"]),
            packages=tuple(map(str, answer["packages"])),
            nodes=dict(answer["nodes"]),
            facts=replace(_facts(answer), clock_offset_s=_offset(float(answer["now"]), *between)),
        )
    except (ValueError, KeyError, TypeError) as failure:
        raise Unreachable(
            f"host {host}: its answer cannot be read: {text[:80]!r}",
            hint="check the log-in scripts there: they must print nothing in a session without a terminal",
        ) from failure


def _offset(now: float, asked: float, answered: float) -> float:
    """Seconds by which a host's time `now` is outside of the interval from `asked` to `answered`; 0 if it is inside.

    `asked` and `answered` are this machine's times before and after the call. The result is negative if the host's
    clock is behind.
    """
    return min(now - asked, 0.0) + max(now - answered, 0.0)


def _facts(answer: Mapping[str, Any]) -> HostFacts:
    texts: Mapping[str, str] = answer["texts"]
    memory = parse_meminfo(texts["meminfo"])
    total, free = answer["disk"] or (None, None)
    return HostFacts(
        platform="linux",
        overcommit_memory=parse_count(texts["overcommit_memory"]),
        thp_mode=parse_thp_mode(texts["thp"]),
        memory_total_bytes=memory.total_bytes,
        memory_available_bytes=memory.available_bytes,
        swap_total_bytes=memory.swap_total_bytes,
        swap_used_bytes=memory.swap_used_bytes,
        somaxconn=parse_count(texts["somaxconn"]),
        clock_synchronised=None if answer["clock"] is None else parse_clock(*answer["clock"]),
        ephemeral_ports=parse_port_range(texts["ephemeral_ports"]),
        reserved_ports=parse_reserved_ports(texts["reserved_ports"]),
        disk_total_bytes=total,
        disk_free_bytes=free,
        cpus=answer["cpus"],
    )
