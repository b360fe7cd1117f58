"""The compose file of a fleet: a service for each node, and a network. The text is the same on every machine. Pure."""

import ipaddress
from pathlib import PurePosixPath
from textwrap import indent

import yaml

from rlctl.render.redis_conf import NodeFiles, backlog, open_files, start_argv
from rlctl.topology.model import MIB, Kind, Topology
from rlctl.topology.nodes import NodeName, NodeSpec, all_nodes, network_of

# Path of the node's folder inside its container. The folder replaces the volume that official images declare there.
DATA = PurePosixPath("/data")
FILES = NodeFiles(folder=DATA, has_log=False)
USER_VARIABLE = "RLCTL_USER"
LABEL_FLEET, LABEL_NODE, LABEL_IMAGE = "io.rlctl.fleet", "io.rlctl.node", "io.rlctl.image"
LABEL_OPEN_FILES = "io.rlctl.open-files"
PUBLISHED_AT = "127.0.0.1"
# Memory of a server in addition to its data: code, buffers, replication backlog. A sentinel needs only this.
_BESIDE_DATA_BYTES = 128 * MIB
_HEADER = """\
# Written by rlctl from the topology of fleet {name}; the next deploy overwrites this file.
# It is an ordinary compose project: `docker compose -p {project} ps`. Start containers with `rlctl deploy`,
# because only rlctl knows which node may start again.
"""


def project_name(fleet: str) -> str:
    """Name of the compose project and of its network."""
    return f"rlctl-{fleet}"


def container_name(fleet: str, node: NodeName) -> str:
    return f"{project_name(fleet)}-{node}"


def memory_limit_bytes(topology: Topology, spec: NodeSpec) -> int:
    """Memory limit of a node's container: twice maxmemory, and a fixed amount.

    Data may need twice maxmemory, because while a node saves or resyncs, memory has two copies of each changed page.
    """
    data_bytes = 0 if spec.is_sentinel else 2 * topology.memory.maxmemory_bytes
    return data_bytes + _BESIDE_DATA_BYTES


def compose_file(topology: Topology, fragment: str) -> str:
    """The text of the compose file; `fragment` is the YAML that all nodes share."""
    services = "".join(_service(topology, spec) for spec in all_nodes(topology))
    project = project_name(topology.name)
    return (
        _HEADER.format(name=topology.name, project=project)
        + f"name: {project}\n\nx-node: &node\n{indent(fragment, '  ')}\nservices:\n{services}\n"
        + _yaml({"networks": {"default": _network(topology)}})
    )


def _service(topology: Topology, spec: NodeSpec) -> str:
    text = _yaml(
        {
            "container_name": container_name(topology.name, spec.name),
            "image": topology.docker.image,
            "command": _command(topology, spec),
            "mem_limit": memory_limit_bytes(topology, spec),
            "ulimits": {"nofile": open_files(topology)},
            "sysctls": {"net.core.somaxconn": backlog(topology)},
            "networks": {"default": {"ipv4_address": spec.address}},
            "ports": [f"{PUBLISHED_AT}:{spec.port}:{spec.port}"],
            "volumes": [
                {
                    "type": "bind",
                    "source": f"./nodes/{spec.name}",
                    "target": str(DATA),
                    "bind": {"create_host_path": False},
                }
            ],
            "labels": {
                LABEL_FLEET: topology.name,
                LABEL_NODE: str(spec.name),
                LABEL_IMAGE: topology.docker.image,
                LABEL_OPEN_FILES: str(open_files(topology)),
            },
            "healthcheck": {
                "test": ["CMD-SHELL", _health(topology, spec)],
                "interval": "10s",
                "timeout": "3s",
                "retries": 3,
                "start_period": "30s",
            },
        }
    )
    return f"  {spec.name}:\n    <<: *node\n{indent(text, '    ')}"


def _command(topology: Topology, spec: NodeSpec) -> list[str]:
    argv = start_argv(f"{topology.engine.flavor}-server", spec, FILES)
    if topology.kind is Kind.SENTINEL and not spec.is_sentinel:
        # The primary is known only when the node starts, but Docker fixes the command when it creates the container.
        # The command therefore includes a file that names the primary.
        argv += ["--include", str(FILES.follow_conf)]
    return argv


def _health(topology: Topology, spec: NodeSpec) -> str:
    """Shell command of the health check.

    The command needs no password, because the reply NOAUTH also proves that the server is up. If the image has no
    client, the command checks that the node's port is listening.
    """
    cli = f"{topology.engine.flavor}-cli"
    tls = f" --tls --cacert {FILES.ca}" if topology.security.tls else ""
    ping = f"{cli} -h {spec.address} -p {spec.port}{tls} ping 2>&1 | grep -Eq 'PONG|NOAUTH'"
    listens = f"grep -q ':{spec.port:04X} 00000000:0000 0A' /proc/net/tcp"
    return f"if command -v {cli} >/dev/null; then {ping}; else {listens}; fi"


def _network(topology: Topology) -> dict[str, object]:
    network: ipaddress.IPv4Network = network_of(topology)
    return {
        "name": project_name(topology.name),
        "driver": "bridge",
        "labels": {LABEL_FLEET: topology.name},
        "ipam": {"config": [{"subnet": str(network), "gateway": str(network[1])}]},
    }


def _yaml(document: dict[str, object]) -> str:
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=False, width=1_000)
