"""The compose file: the settings of every container, and that its parts are consistent."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlctl.render.compose import compose_file, container_name, memory_limit_bytes
from rlctl.topology.model import (
    MIB,
    ClusterShape,
    DockerPlace,
    Engine,
    Flavor,
    Memory,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import cluster, watched

FRAGMENT = (Path(__file__).parents[3] / "compose" / "node.yaml").read_text(encoding="utf-8")
PLACE = DockerPlace(image="redis:8.0", subnet="172.28.5.0/24")
CLUSTER = replace(cluster(), target=TargetName.DOCKER, docker=PLACE)
WATCHED = replace(watched(), target=TargetName.DOCKER, docker=PLACE)

NODE_1 = """\
  node-1:
    <<: *node
    container_name: rlctl-limiter-node-1
    image: redis:8.0
    command:
    - redis-server
    - /data/node.conf
    - --include
    - /data/static.conf
    mem_limit: 671088640
    ulimits:
      nofile: 10032
    sysctls:
      net.core.somaxconn: 511
    networks:
      default:
        ipv4_address: 172.28.5.3
    ports:
    - 127.0.0.1:7001:7001
    volumes:
    - type: bind
      source: ./nodes/node-1
      target: /data
      bind:
        create_host_path: false
    labels:
      io.rlctl.fleet: limiter
      io.rlctl.node: node-1
      io.rlctl.image: redis:8.0
      io.rlctl.open-files: '10032'
"""


def services(topology: Topology) -> dict[str, Any]:
    return yaml.safe_load(compose_file(topology, FRAGMENT))["services"]


def test_a_node_word_for_word() -> None:
    assert NODE_1 in compose_file(CLUSTER, FRAGMENT)


@pytest.mark.parametrize("topology", [CLUSTER, WATCHED], ids=["cluster", "sentinel"])
def test_what_every_container_has(topology: Topology) -> None:
    for service in services(topology).values():
        assert service["restart"] == "no"
        assert service["entrypoint"] == ["sh", "-c", 'umask 077 && exec "$$0" "$$@"']
        assert service["user"].startswith("${RLCTL_USER:?")
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
        assert service["healthcheck"]["interval"] == "10s"
        assert "environment" not in service


def test_the_reason_for_no_restart_stands_in_the_file() -> None:
    before, _, _after = compose_file(CLUSTER, FRAGMENT).partition('  restart: "no"')
    assert "would come back empty" in before.splitlines()[-2] + before.splitlines()[-1]


def test_the_network_is_the_fleets_own() -> None:
    document = yaml.safe_load(compose_file(CLUSTER, FRAGMENT))
    assert document["name"] == "rlctl-limiter"
    network = document["networks"]["default"]
    assert network["name"] == "rlctl-limiter"
    assert network["ipam"] == {"config": [{"subnet": "172.28.5.0/24", "gateway": "172.28.5.1"}]}


def test_a_command_is_the_same_at_every_start() -> None:
    """A data node behind sentinels reads its primary from a file; a cluster node has it in nodes.conf."""
    found = services(WATCHED)
    assert found["node-1"]["command"][-2:] == ["--include", "/data/follow.conf"]
    assert found["sentinel-0"]["command"] == [
        *("redis-server", "/data/sentinel.conf", "--include", "/data/static.conf", "--sentinel")
    ]
    assert "/data/follow.conf" not in services(CLUSTER)["node-1"]["command"]


@pytest.mark.parametrize(
    ("topology", "question"),
    [
        pytest.param(CLUSTER, "redis-cli -h 172.28.5.2 -p 7000 ping", id="plain"),
        pytest.param(
            replace(CLUSTER, security=Security(tls=True)),
            "redis-cli -h 172.28.5.2 -p 7000 --tls --cacert /data/ca.crt ping",
            id="TLS",
        ),
        pytest.param(
            replace(CLUSTER, engine=Engine(flavor=Flavor.VALKEY)), "valkey-cli -h 172.28.5.2 -p 7000 ping", id="valkey"
        ),
    ],
)
def test_health_needs_no_secret(topology: Topology, question: str) -> None:
    shell, check = services(topology)["node-0"]["healthcheck"]["test"]
    assert shell == "CMD-SHELL"
    assert f"{question} 2>&1 | grep -Eq 'PONG|NOAUTH'" in check
    # For an image without a client, the check looks up the listening port in the kernel's format.
    assert "else grep -q ':1B58 00000000:0000 0A' /proc/net/tcp; fi" in check


@pytest.mark.parametrize(("maxmemory_mib", "limit_mib"), [(64, 256), (256, 640), (1024, 2176)])
def test_memory_has_room_for_a_copy(maxmemory_mib: int, limit_mib: int) -> None:
    topology = replace(WATCHED, memory=Memory(maxmemory_bytes=maxmemory_mib * MIB))
    limits = {spec.name: memory_limit_bytes(topology, spec) for spec in all_nodes(topology)}
    assert limits["node-0"] == limit_mib * MIB
    assert limits["sentinel-0"] == 128 * MIB


def test_directives_of_the_topology_count() -> None:
    topology = replace(CLUSTER, redis=(("maxclients", "20000"), ("tcp-backlog", "1024")))
    node = services(topology)["node-0"]
    assert node["ulimits"] == {"nofile": 20_032}
    assert node["sysctls"] == {"net.core.somaxconn": 1024}


@settings(max_examples=20, deadline=None)
@given(shards=st.integers(3, 40), replicas=st.integers(0, 4), sentinels=st.integers(1, 9), is_cluster=st.booleans())
def test_no_two_nodes_share_anything(shards: int, replicas: int, sentinels: int, *, is_cluster: bool) -> None:
    shape = {"cluster": ClusterShape(shards=shards, replicas=replicas)}
    watchers = {"sentinel": SentinelShape(replicas=replicas, sentinels=sentinels, quorum=1)}
    base = replace(CLUSTER, **shape) if is_cluster else replace(WATCHED, **watchers)
    topology = replace(base, docker=DockerPlace())
    document = yaml.safe_load(compose_file(topology, FRAGMENT))
    config = document["networks"]["default"]["ipam"]["config"][0]
    network = IPv4Network(config["subnet"])
    addresses = [one["networks"]["default"]["ipv4_address"] for one in document["services"].values()]
    assert len({*addresses, config["gateway"]}) == len(all_nodes(topology)) + 1
    assert all(IPv4Address(address) in network for address in addresses)
    assert len({port for one in document["services"].values() for port in one["ports"]}) == len(addresses)
    assert len({one["volumes"][0]["source"] for one in document["services"].values()}) == len(addresses)


def test_containers_are_called_by_fleet_and_node() -> None:
    assert [services(CLUSTER)[spec.name]["container_name"] for spec in all_nodes(CLUSTER)] == [
        container_name("limiter", spec.name) for spec in all_nodes(CLUSTER)
    ]
