"""The Ansible inventory of a fleet on hosts: the nodes of each host, and variables of the fleet. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from rlctl.errors import Refused
from rlctl.files.mistakes import printable
from rlctl.render.redis_conf import topology_directives
from rlctl.topology.model import HostEntry, Kind, Topology
from rlctl.topology.nodes import BUS_PORT_OFFSET, NodeSpec, all_nodes, host_name

Variables = dict[str, object]
_TEMPLATE_MARKS = ("{{", "{%", "{#")


def inventory(topology: Topology, topology_file: PurePath) -> dict[str, Any]:
    """The document that an inventory script prints for `--list`, without secrets.

    Raises Refused if Ansible would run a value as a template.
    """
    hosts = used_hosts(topology)
    document = {
        "_meta": {"hostvars": {host_name(host): host_variables(topology, host) for host in hosts}},
        "rlctl_hosts": {
            "hosts": [host_name(host) for host in hosts],
            "vars": _fleet_variables(topology, topology_file, hosts),
        },
        "rlctl_data": {"hosts": _running(hosts, (spec for spec in all_nodes(topology) if not spec.is_sentinel))},
        "rlctl_sentinels": {"hosts": _running(hosts, (spec for spec in all_nodes(topology) if spec.is_sentinel))},
    }
    refuse_templates(document)
    return document


def refuse_templates(value: object) -> None:
    """Raise Refused if Ansible would run a text in this value as a Jinja template."""
    for text in _texts(value):
        for mark in _TEMPLATE_MARKS:
            if mark in text:
                raise Refused(
                    f"{printable(text)} contains {mark}, so Ansible would run it as a template on this machine",
                    hint="rename the folder so that its path does not contain {{, {% or {#",
                )


def static_inventory(topology: Topology, topology_file: PurePath) -> dict[str, object]:
    """The inventory in the form of a YAML file, without `_meta`."""
    document = inventory(topology, topology_file)
    variables: Mapping[str, Variables] = document.pop("_meta")["hostvars"]
    groups = {
        name: {"hosts": {host: variables[host] for host in group["hosts"]}, "vars": group.get("vars", {})}
        for name, group in document.items()
    }
    return {"all": {"children": groups}}


def used_hosts(topology: Topology) -> tuple[HostEntry, ...]:
    """The hosts that run a node of the fleet."""
    used = {spec.host for spec in all_nodes(topology)}
    return tuple(host for host in topology.hosts if host_name(host) in used)


def host_variables(topology: Topology, host: HostEntry) -> Variables:
    """The variables of one host: its SSH connection and its nodes."""
    own = [spec for spec in all_nodes(topology) if spec.host == host_name(host)]
    found: Variables = {"ansible_host": host.address, "ansible_port": host.port}
    if host.user is not None:
        found["ansible_user"] = host.user
    return found | {
        "rlctl_zone": host.zone,
        "redis_node_instances": [_data_node(topology, spec) for spec in own if not spec.is_sentinel],
        "sentinel_instances": [{"name": spec.name, "port": spec.port} for spec in own if spec.is_sentinel],
    }


def _data_node(topology: Topology, spec: NodeSpec) -> Variables:
    bus_port = spec.port + BUS_PORT_OFFSET if topology.kind is Kind.CLUSTER else None
    return {"name": spec.name, "port": spec.port, "bus_port": bus_port}


def _fleet_variables(topology: Topology, topology_file: PurePath, hosts: Iterable[HostEntry]) -> Variables:
    return {
        "rlctl_fleet": topology.name,
        "rlctl_kind": topology.kind.value,
        "rlctl_flavor": topology.engine.flavor.value,
        "rlctl_engine_version": topology.engine.version,
        "rlctl_addresses": list(dict.fromkeys(host.address for host in hosts)),
        "rlctl_persistence": topology.persistence.mode.value,
        "rlctl_maxmemory_bytes": topology.memory.maxmemory_bytes,
        "rlctl_tls": topology.security.tls,
        "rlctl_directives": [" ".join(one) for one in topology_directives(topology)],
        "rlctl_topology": str(topology_file),
    }


def _running(hosts: Iterable[HostEntry], specs: Iterable[NodeSpec]) -> list[str]:
    named = {spec.host for spec in specs}
    return [host_name(host) for host in hosts if host_name(host) in named]


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for name, one in value.items():
                yield from _texts(name)
                yield from _texts(one)
        case list() | tuple():
            for one in value:
                yield from _texts(one)
        case _:
            pass
