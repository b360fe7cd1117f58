"""Refuse hosts, images and networks that are impossible."""

import ipaddress
import re
from collections.abc import Iterator
from itertools import combinations

from rlctl.files.mistakes import Problem
from rlctl.topology.model import Flavor, HostEntry, Kind, TargetName, Topology
from rlctl.topology.nodes import host_name
from rlctl.topology.shape_checks import MOST_NODES, data_count, port_spans, shape_paths
from rlctl.topology.subnets import TAKEN_ADDRESSES

_OLDEST = {Flavor.REDIS: (7, 0), Flavor.VALKEY: (7, 2)}
_SAMPLE_IMAGE = {Flavor.REDIS: "redis:8.0", Flavor.VALKEY: "valkey/valkey:8.1"}
# Ansible's own names, and the groups of `rlctl inventory`. A host with such a name would get the tasks of the group.
_RESERVED_NAMES = frozenset(
    ("all", "ungrouped", "localhost", "127.0.0.1", "rlctl_hosts", "rlctl_data", "rlctl_sentinels", "rlctl_watchers")
)
_TAG_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+){0,2})(?:-.*)?")


def refuse_hosts(topology: Topology) -> Iterator[Problem]:
    """Problems with `hosts`: duplicates, reserved names, overlapping ports, too few hosts."""
    if len(topology.hosts) > MOST_NODES:
        yield Problem(paths=("hosts",), text=f"hosts: more than {MOST_NODES} entries; write fewer")
        return
    yield from _refuse_duplicates(topology)
    yield from _refuse_reserved_names(topology)
    yield from _refuse_shared_ports(topology)
    if topology.target is TargetName.HOSTS:
        yield from _refuse_too_few(topology)


def _refuse_duplicates(topology: Topology) -> Iterator[Problem]:
    places: dict[tuple[str, int], int] = {}
    names: dict[str, int] = {}
    for index, host in enumerate(topology.hosts):
        path = f"hosts[{index}]"
        first = places.setdefault((host.address, host.port), index)
        named_first = names.setdefault(host.name or host.address, index)
        if first != index:
            yield Problem(
                paths=(f"{path}.address", f"{path}.port", f"hosts[{first}].address", f"hosts[{first}].port"),
                text=f"{path}.address: {host.address} is listed already, as hosts[{first}]; delete one",
            )
        elif named_first != index:
            yield Problem(
                paths=tuple(f"hosts[{one}].{key}" for one in (index, named_first) for key in ("name", "address")),
                text=f"{path}.name: hosts[{named_first}] is already called {host.name or host.address}; "
                "give each host a different `name`",
            )


def _refuse_reserved_names(topology: Topology) -> Iterator[Problem]:
    for index, host in enumerate(topology.hosts):
        if host_name(host) in _RESERVED_NAMES:
            yield Problem(
                paths=(f"hosts[{index}].name", f"hosts[{index}].address"),
                text=f"hosts[{index}].name: {host_name(host)} is reserved in Ansible inventories; write another `name`",
            )


def _refuse_shared_ports(topology: Topology) -> Iterator[Problem]:
    by_address: dict[str, list[int]] = {}
    for index, host in enumerate(topology.hosts):
        by_address.setdefault(host.address, []).append(index)
        for what, first, last in _spans(topology, host):
            if first <= host.port <= last:
                yield Problem(
                    paths=(f"hosts[{index}].port", f"hosts[{index}].base_port", "local.base_port", "kind"),
                    text=f"hosts[{index}].port: the SSH port {host.port} is among the ports of the {what} "
                    f"({first} to {last}); write another `base_port`",
                )
    for indexes in by_address.values():
        for one, other in combinations(indexes, 2):
            yield from _refuse_overlap(topology, one, other)


def _refuse_overlap(topology: Topology, one: int, other: int) -> Iterator[Problem]:
    host, earlier = topology.hosts[other], topology.hosts[one]
    # Entries with the same base port share one numbering, in which each node has its own port, so no ports overlap.
    if _base_port(topology, host) == _base_port(topology, earlier):
        return
    for what, first, last in _spans(topology, host):
        for earlier_what, earlier_first, earlier_last in _spans(topology, earlier):
            if first <= earlier_last and earlier_first <= last:
                yield Problem(
                    paths=(f"hosts[{other}].base_port", f"hosts[{one}].base_port", "local.base_port", "kind"),
                    text=f"hosts[{other}].base_port: the ports of the {what} ({first} to {last}) and of the "
                    f"{earlier_what} of hosts[{one}] ({earlier_first} to {earlier_last}) overlap at {host.address}; "
                    "write base ports that are further apart, or equal",
                )
                return


def _base_port(topology: Topology, host: HostEntry) -> int:
    return topology.local.base_port if host.base_port is None else host.base_port


def _spans(topology: Topology, host: HostEntry) -> tuple[tuple[str, int, int], ...]:
    return port_spans(topology, _base_port(topology, host))


def _refuse_too_few(topology: Topology) -> Iterator[Problem]:
    if not topology.hosts:
        yield Problem(
            paths=("hosts", "target"),
            text="hosts: target hosts needs at least one host; write one such as `hosts: [{address: 10.0.0.11}]`",
        )
        return
    limits = [host.nodes for host in topology.hosts if host.nodes is not None]
    needed = data_count(topology)
    if len(limits) == len(topology.hosts) and sum(limits) < needed:
        yield Problem(
            paths=("hosts", "target", *shape_paths(topology)),
            text=f"hosts: `nodes` allows {sum(limits)} data nodes in all, but the fleet has {needed}; "
            "add hosts or raise `nodes`",
        )
    if topology.kind is Kind.SENTINEL and not any(host.sentinel for host in topology.hosts):
        yield Problem(
            paths=("hosts", "target", "kind"),
            text="hosts: every host has `sentinel: false`, so no sentinel can run; delete it on at least 3 hosts",
        )


def refuse_docker(topology: Topology) -> Iterator[Problem]:
    """Problems with a subnet that has too few addresses."""
    subnet, needed = topology.docker.subnet, data_count(topology)
    if topology.kind is Kind.SENTINEL:
        needed += topology.sentinel.sentinels
    try:
        room = ipaddress.IPv4Network(subnet).num_addresses - TAKEN_ADDRESSES
    except ValueError:
        return  # The subnet is `auto`, or it is invalid and the type of the setting refuses it.
    if room < needed:
        yield Problem(
            paths=("docker.subnet", *shape_paths(topology)),
            text=f"docker.subnet: {subnet} has room for {max(room, 0)} nodes, but the fleet has {needed}; "
            "write a larger network or auto",
        )


def refuse_engines(topology: Topology) -> Iterator[Problem]:
    """Server versions that are too old, and images that contradict `engine`."""
    engine = topology.engine
    if engine.version is not None:
        yield from _refuse_old("engine.version", engine.flavor, engine.version)
    if topology.target is TargetName.DOCKER:
        yield from _refuse_image(topology)


def _refuse_image(topology: Topology) -> Iterator[Problem]:
    engine, image = topology.engine, topology.docker.image
    repository, _, tag = image.split("@")[0].rpartition("/")[2].partition(":")
    flavor = next((flavor for flavor in reversed(Flavor) if flavor in repository), None)
    if flavor not in {None, engine.flavor}:
        yield Problem(
            paths=("docker.image", "engine.flavor", "target"),
            text=f"docker.image: {image} is a {flavor} image, but engine.flavor is {engine.flavor}; "
            f"write an image such as {_SAMPLE_IMAGE[engine.flavor]}, or change engine.flavor",
        )
    # Only in images called redis or valkey is the tag sure to be the server's version, so other tags are not checked.
    elif repository == flavor and (match := _TAG_VERSION.fullmatch(tag)):
        yield from _refuse_old("docker.image", engine.flavor, match[1])
        if engine.version is not None and not _agree(engine.version, match[1]):
            yield Problem(
                paths=("engine.version", "docker.image", "target"),
                text=f"engine.version: {engine.version} contradicts docker.image, {image}; "
                f"write {match[1]}, or delete the line",
            )


def _refuse_old(path: str, flavor: Flavor, version: str) -> Iterator[Problem]:
    oldest = _OLDEST[flavor]
    numbers = _numbers(version)
    if numbers < oldest[: len(numbers)]:
        least = ".".join(map(str, oldest))
        yield Problem(
            paths=(path, "engine.flavor"),
            text=f"{path}: {flavor} {version} is too old; write {least} or newer",
        )


def _agree(one: str, other: str) -> bool:
    return all(left == right for left, right in zip(_numbers(one), _numbers(other), strict=False))


def _numbers(version: str) -> tuple[int, ...]:
    # The numbers of an invalid version do not matter, because the type of the setting refuses the version.
    return tuple(int(part) for part in re.findall(r"[0-9]{1,9}", version))
