"""A fleet whose nodes each have a loopback address works like one on a single address."""

import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.local.driver import LocalFleet, cluster_document, sentinel_document
from tests.local.failures import assert_fails

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on all of 127.0.0.0/8")


def spread(document: dict[str, Any]) -> dict[str, Any]:
    return document | {"local": {"base_port": document["local"]["base_port"], "spread": True}}


@pytest.mark.parametrize(
    ("document", "addresses"),
    [
        pytest.param(cluster_document, [f"127.77.0.{number}" for number in range(1, 7)], id="cluster"),
        pytest.param(
            sentinel_document,
            [f"127.{net}.0.{number}" for net in (77, 78) for number in range(1, 4)],
            id="sentinel",
        ),
    ],
)
def test_from_nothing_to_healthy_and_gone(
    make_fleet: Callable[[dict[str, Any]], LocalFleet],
    document: Callable[[], dict[str, Any]],
    addresses: list[str],
) -> None:
    fleet = make_fleet(spread(document()))
    fleet.deploy()
    status = fleet.status()
    assert status["state"] == "healthy"
    assert [node["host"] for node in status["nodes"]] == addresses
    assert {where.partition(":")[0] for key in ("nodes", "sentinels") for where in fleet.access()[key]} <= set(
        addresses
    )
    # The primary of a Sentinel fleet connects to no other node.
    assert set(addresses[1:]) <= sources(fleet) <= set(addresses)
    assert fleet.run("limit", "--algorithm", "gcra", "-o", "json", "ada").json()["source"] == "redis"
    fleet.run("deploy", "--dry-run")
    fleet.document["local"]["spread"] = False
    fleet.write()
    assert_fails(fleet, "deploy", "--yes", code=8, name="refused", says="local.spread")
    fleet.document["local"]["spread"] = True
    fleet.write()
    fleet.run("destroy", "--confirm", fleet.name)
    assert fleet.processes() == []


def sources(fleet: LocalFleet) -> set[str]:
    """The source addresses of connections between the servers."""
    links = [link for process in fleet.processes() for link in process.net_connections(kind="tcp")]
    served = {link.laddr.port for link in links if link.status == psutil.CONN_LISTEN}
    return {link.laddr.ip for link in links if link.status == psutil.CONN_ESTABLISHED and link.laddr.port not in served}


def test_one_address_and_an_address_each_exclude_each_other(cluster: LocalFleet) -> None:
    cluster.document["local"] |= {"address": "127.9.9.9", "spread": True}
    cluster.write()
    says = f"{cluster.file}:9: local.spread: true gives each node its own address"
    assert_fails(cluster, "deploy", "--dry-run", code=3, name="invalid-file", says=says)
