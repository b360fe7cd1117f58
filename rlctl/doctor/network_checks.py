"""Checks of ports that the kernel may give to other connections, and of the listen backlog."""

from collections.abc import Iterable

from rlctl.doctor.kernel_checks import MACHINE, by_hand
from rlctl.doctor.model import Check, passed, unread, warned
from rlctl.render.redis_conf import backlog
from rlctl.system.host_facts import HostFacts, PortRange
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, all_nodes, data_nodes


def network_checks(topology: Topology, facts: HostFacts) -> tuple[Check, ...]:
    """The checks of node ports, bus ports and the listen backlog."""
    ports = [node.port for node in all_nodes(topology)]
    bus = _bus_ports(topology)
    reserve = _reserve(facts, [*ports, *bus])
    return (
        _range_check("ephemeral-ports", ports, facts, reserve),
        _range_check("ephemeral-bus-ports", bus, facts, reserve)
        if bus
        else passed("ephemeral-bus-ports", MACHINE, _no_bus(topology)),
        _backlog(topology, facts),
    )


def _bus_ports(topology: Topology) -> list[int]:
    if topology.kind is not Kind.CLUSTER or topology.target is TargetName.DOCKER:
        return []
    return [node.port + BUS_PORT_OFFSET for node in data_nodes(topology)]


def _no_bus(topology: Topology) -> str:
    is_cluster = topology.kind is Kind.CLUSTER
    return "each container has its own ports" if is_cluster else "kind sentinel has no cluster bus"


def _range_check(name: str, ports: list[int], facts: HostFacts, reserve: str) -> Check:
    window = facts.ephemeral_ports
    if window is None:
        return unread(
            name,
            MACHINE,
            f"the ephemeral port range could not be read; the fleet uses {ports_text(ports)}",
            "check by hand: sysctl net.inet.ip.portrange.first net.inet.ip.portrange.last"
            if facts.platform == "darwin"
            else "check by hand: sysctl net.ipv4.ip_local_port_range",
        )
    inside = [port for port in ports if _within(port, [window])]
    exposed = [port for port in inside if not _within(port, facts.reserved_ports or ())]
    seen = f"ports {ports_text(ports)}, ephemeral range {window[0]}-{window[1]}"
    if not inside:
        return passed(name, MACHINE, seen)
    if not exposed:
        return passed(name, MACHINE, f"{seen}; {ports_text(inside)} are in the range, but reserved")
    return warned(
        name,
        MACHINE,
        f"{seen}: while a node is down, an outgoing connection may take {ports_text(exposed)}",
        f"choose a base_port outside the range, or sysctl net.ipv4.ip_local_reserved_ports={reserve}",
    )


def _reserve(facts: HostFacts, ports: Iterable[int]) -> str:
    """The value for ip_local_reserved_ports. It replaces the list, so it includes ports that are reserved already."""
    reserved = facts.reserved_ports or ()
    window = [] if facts.ephemeral_ports is None else [facts.ephemeral_ports]
    exposed = {port for port in ports if _within(port, window) and not _within(port, reserved)}
    return ",".join(_range_text(span) for span in sorted({*reserved, *_spans(exposed)}))


def _within(port: int, ranges: Iterable[PortRange]) -> bool:
    return any(low <= port <= high for low, high in ranges)


def ports_text(ports: Iterable[int]) -> str:
    """Ports in the form `7000-7005, 8000`."""
    return ", ".join(_range_text(span) for span in _spans(ports))


def _range_text(span: PortRange) -> str:
    low, high = span
    return str(low) if low == high else f"{low}-{high}"


def _spans(ports: Iterable[int]) -> list[PortRange]:
    spans: list[PortRange] = []
    for port in sorted(set(ports)):
        if spans and spans[-1][1] == port - 1:
            spans[-1] = (spans[-1][0], port)
        else:
            spans.append((port, port))
    return spans


def _backlog(topology: Topology, facts: HostFacts) -> Check:
    name, somaxconn, wanted = "tcp-backlog", facts.somaxconn, backlog(topology)
    if topology.target is TargetName.DOCKER:
        return passed(name, "containers", f"net.core.somaxconn equals tcp-backlog, {wanted}, in each container")
    if somaxconn is None:
        return unread(
            name,
            MACHINE,
            "net.core.somaxconn could not be read",
            by_hand(facts, "sysctl -n net.core.somaxconn"),
        )
    evidence = f"net.core.somaxconn is {somaxconn}, tcp-backlog is {wanted}"
    if somaxconn >= wanted:
        return passed(name, MACHINE, evidence)
    return warned(
        name,
        MACHINE,
        f"{evidence}: the kernel limits the queue to {somaxconn}, so reconnecting clients may be dropped",
        f"sysctl net.core.somaxconn={max(wanted, 1024)}; to keep it after a reboot, add it to a file in /etc/sysctl.d/",
    )
