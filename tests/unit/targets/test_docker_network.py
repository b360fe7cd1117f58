"""Which network a Docker fleet gets, and what is said when another is in its place."""

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from rlctl.errors import Unreachable
from rlctl.state.record import FleetRecord
from rlctl.system.docker import PROJECT, Network
from rlctl.targets.docker import network as docker_network
from rlctl.targets.docker.network import check_network, choose_network
from rlctl.topology.model import DockerPlace, TargetName
from rlctl.topology.subnets import candidates, network_around, parse_routes
from tests.unit.fleets import cluster

AUTO = replace(cluster(), target=TargetName.DOCKER)
FIXED = replace(AUTO, docker=DockerPlace(subnet="172.28.0.0/24"))
FIRST, SECOND, *_ = candidates("limiter", 6)
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
tun0\t00051CAC\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


class Engine:
    """Networks, and nothing else."""

    def __init__(self, *networks: Network) -> None:
        self._networks = networks

    def networks(self) -> tuple[Network, ...]:
        return self._networks


@pytest.fixture(autouse=True)
def routes(monkeypatch: pytest.MonkeyPatch) -> list[IPv4Network]:
    """What this machine has routes to."""
    found: list[IPv4Network] = []
    monkeypatch.setattr(docker_network, "routed_networks", lambda: tuple(found))
    return found


def network(name: str, *subnets: str | IPv4Network, project: str | None = None) -> Network:
    labels = {PROJECT: project} if project else {}
    return Network(name=name, labels=labels, subnets=tuple(IPv4Network(subnet) for subnet in subnets))


def engine(*networks: Network) -> Any:
    return Engine(*networks)


def test_the_first_that_is_free(routes: list[IPv4Network]) -> None:
    assert choose_network(AUTO, None, engine()) == FIRST
    assert choose_network(AUTO, None, engine(network("other", FIRST))) == SECOND
    routes.append(FIRST)
    assert choose_network(AUTO, None, engine()) == SECOND


def test_where_it_is_already() -> None:
    own = network("rlctl-limiter", "172.29.7.0/24", project="rlctl-limiter")
    assert choose_network(AUTO, None, engine(own)) == IPv4Network("172.29.7.0/24")
    recorded = FleetRecord(topology=replace(AUTO, docker=DockerPlace(subnet="172.30.1.0/24")))
    assert choose_network(AUTO, recorded, engine(own)) == IPv4Network("172.30.1.0/24")


def test_nothing_is_free() -> None:
    with pytest.raises(Unreachable, match="no network within"):
        choose_network(AUTO, None, engine(network("all", "172.16.0.0/12")))


def test_its_own_network_is_not_in_its_way(routes: list[IPv4Network]) -> None:
    routes.append(IPv4Network("172.28.0.0/24"))
    check_network(FIXED, engine(network("rlctl-limiter", "172.28.0.0/24", project="rlctl-limiter")))


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        (network("theirs", "172.28.0.0/16"), "172.28.0.0/24 is taken: Docker network theirs has 172.28.0.0/16"),
        (
            network("rlctl-limiter", "172.28.0.0/24"),
            "172.28.0.0/24 is taken: Docker network rlctl-limiter has 172.28.0.0/24",
        ),
        (
            network("rlctl-limiter", "172.29.0.0/24", project="rlctl-limiter"),
            "network rlctl-limiter has 172.29.0.0/24, this fleet wants 172.28.0.0/24",
        ),
    ],
    ids=["overlaps", "not made by compose", "another of its own"],
)
def test_what_is_in_the_way_is_named(taken: Network, message: str) -> None:
    with pytest.raises(Unreachable, match=message):
        check_network(FIXED, engine(network("far away", "172.16.0.0/24"), taken))


def test_a_route_is_in_the_way(routes: list[IPv4Network]) -> None:
    routes.append(IPv4Network("172.28.0.0/14"))
    with pytest.raises(Unreachable, match=r"this machine has a route to 172\.28\.0\.0/14"):
        check_network(FIXED, engine())


def test_routes_as_the_kernel_tells_them() -> None:
    assert parse_routes(ROUTES) == (IPv4Network("172.17.0.0/16"), IPv4Network("172.28.5.0/24"))
    assert parse_routes("") == ()


@pytest.mark.parametrize("nodes", [6, 253, 254, 900])
def test_an_address_leads_back_to_its_network(nodes: int) -> None:
    found = next(candidates("limiter", nodes))
    assert network_around(str(found[2]), nodes) == found
