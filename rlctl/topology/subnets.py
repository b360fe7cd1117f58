"""Networks for Docker fleets, and the addresses of nodes in a network. Pure."""

import hashlib
import ipaddress
from collections.abc import Iterator

from rlctl.files.mistakes import shown
from rlctl.files.values import ValueType, checked_text
from rlctl.topology.model import Topology

AUTO = "auto"
DOCKER_NETWORKS = ipaddress.IPv4Network("172.16.0.0/12")
# The network of Docker's default bridge.
_BRIDGE = ipaddress.IPv4Network("172.17.0.0/16")
# A network reserves three addresses: the network address, the broadcast address and the gateway.
TAKEN_ADDRESSES = 3
_SMALLEST_PREFIX = 24


def candidates(name: str, nodes: int) -> Iterator[ipaddress.IPv4Network]:
    """Networks with room for `nodes` nodes. The fleet's name decides the order, so that fleets rarely collide."""
    prefix = _prefix(nodes)
    found = [net for net in DOCKER_NETWORKS.subnets(new_prefix=prefix) if not net.overlaps(_BRIDGE)]
    start = int.from_bytes(hashlib.sha1(name.encode(), usedforsecurity=False).digest()[:4]) % len(found)
    yield from found[start:] + found[:start]


def network_around(address: str, nodes: int) -> ipaddress.IPv4Network:
    """The network from `candidates` that contains an address."""
    return ipaddress.IPv4Network(f"{address}/{_prefix(nodes)}", strict=False)


def _prefix(nodes: int) -> int:
    return min(_SMALLEST_PREFIX, 32 - (nodes + TAKEN_ADDRESSES - 1).bit_length())


def parse_routes(text: str) -> tuple[ipaddress.IPv4Network, ...]:
    """The networks in the text of `/proc/net/route` (little-endian words), without the default route."""
    rows = [line.split() for line in text.splitlines()[1:]]
    found = [_route(row[1], row[7]) for row in rows if len(row) > 7]
    return tuple(net for net in found if net.prefixlen)


def _route(destination: str, mask: str) -> ipaddress.IPv4Network:
    address, bits = (int.from_bytes(bytes.fromhex(word), "little") for word in (destination, mask))
    return ipaddress.IPv4Network((address, bits.bit_count()), strict=False)


def subnet_of(topology: Topology, nodes: int) -> ipaddress.IPv4Network:
    """The fleet's network; for subnet `auto`, the first candidate."""
    if topology.docker.subnet == AUTO:
        return next(candidates(topology.name, nodes))
    return ipaddress.IPv4Network(topology.docker.subnet)


def data_address(network: ipaddress.IPv4Network, index: int) -> str:
    """Address of a data node. Addresses count up from the gateway, so that added nodes leave the others in place."""
    return str(network[2 + index])


def sentinel_address(network: ipaddress.IPv4Network, index: int) -> str:
    """Address of a sentinel. Addresses count down from the broadcast address."""
    return str(network[-2 - index])


def subnet() -> ValueType[str]:
    """`auto`, or a network within the range that Docker uses."""
    return checked_text(_refuse_subnet, {"type": "string", "pattern": r"^(auto|172\.[0-9.]+/[0-9]+)$"})


def _refuse_subnet(value: str) -> str:
    if value == AUTO:
        return ""
    remedy = "write auto, or a network such as 172.28.0.0/24"
    try:
        network = ipaddress.IPv4Network(value)
    except ValueError as error:
        return f"{shown(value)} is not an IPv4 network ({shown(str(error))}); {remedy}"
    if "/" not in value or not network.subnet_of(DOCKER_NETWORKS):
        return f"{shown(value)} is not a network within {DOCKER_NETWORKS}; {remedy}"
    return ""
