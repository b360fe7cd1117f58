"""destroy without the state folder while the servers run: it reports them and stops no unproven process."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.local.driver import LocalFleet, cluster_document, is_gone, sentinel_document

MakeFleet = Callable[[dict[str, Any]], LocalFleet]
DOCUMENTS = pytest.mark.parametrize(
    "document",
    [
        pytest.param(cluster_document, id="cluster"),
        pytest.param(sentinel_document, id="sentinel"),
        pytest.param(lambda: cluster_document(security={"tls": True}), id="tls"),
        pytest.param(lambda: cluster_document(security={"acl": False}), id="no acl"),
    ],
)


@DOCUMENTS
def test_running_servers_without_their_state_are_named_and_left(
    make_fleet: MakeFleet, document: Callable[[], dict[str, Any]]
) -> None:
    fleet = make_fleet(document())
    fleet.deploy()
    handed = fleet.folder / "handed.json"
    fleet.run("secrets", "export", str(handed))
    pids = {process.pid for process in fleet.processes()}
    nodes = fleet.status()["nodes"]
    elsewhere = fleet.folder / "elsewhere"
    fleet.home.rename(elsewhere)

    refused = fleet.run("destroy", "--confirm", fleet.name, "-o", "json", expect=4).error()
    named = [word for node in nodes for word in (str(node["port"]), node["name"])]
    assert [word for word in (*named, *(f"(pid {pid})" for pid in pids)) if word not in refused["message"]] == []
    assert "rlctl secrets import" in refused["hint"]
    assert "RLCTL_SECRETS" in refused["hint"]
    assert not any(map(is_gone, pids))

    # The secrets prove that this is the fleet, but rlctl does not know its processes and folders.
    ran = fleet.run("destroy", "--confirm", fleet.name, "-o", "json", expect=8, RLCTL_SECRETS=str(handed))
    assert [pid for pid in pids if f"(pid {pid})" not in ran.error()["message"]] == []
    assert "RLCTL_HOME" in ran.error()["hint"]
    fleet.run("secrets", "import", str(handed))
    fleet.run("destroy", "--confirm", fleet.name, expect=8)
    assert handed.read_bytes() == (fleet.home / "fleets" / fleet.name / "secrets.json").read_bytes()
    assert not any(map(is_gone, pids))

    fleet.run("destroy", "--confirm", fleet.name, RLCTL_HOME=str(elsewhere))
    assert all(map(is_gone, pids))
    assert "no nodes found" in fleet.run("destroy", "--confirm", fleet.name, RLCTL_HOME=str(elsewhere)).out


def test_servers_whose_state_was_removed_are_still_proven_by_their_folders(cluster: LocalFleet) -> None:
    cluster.deploy()
    pids = [process.pid for process in cluster.processes()]
    shutil.rmtree(cluster.home)
    assert len(cluster.run("destroy", "--confirm", cluster.name, "-o", "json").json()["removed"]) == len(pids)
    assert all(map(is_gone, pids))
