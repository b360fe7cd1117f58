"""Deploy a topology file to a healthy fleet, repeatedly."""

from tests.local.driver import LocalFleet


def test_cluster_from_nothing_to_healthy(cluster: LocalFleet) -> None:
    first = cluster.deploy().json()
    assert first["changed"]
    assert {step["outcome"] for step in first["steps"]} == {"done"}
    status = cluster.status()
    assert status["state"] == "healthy"
    assert sum(node["slots"] for node in status["nodes"]) == 16384
    assert sorted(node["role"] for node in status["nodes"]) == ["primary"] * 3 + ["replica"] * 3
    again = cluster.deploy().json()
    assert not again["changed"]
    assert again["steps"] == []
    cluster.run("destroy", "--confirm", "limiter")
    assert cluster.processes() == []


def test_sentinel_from_nothing_to_healthy(sentinel: LocalFleet) -> None:
    sentinel.deploy()
    status = sentinel.status()
    assert status["state"] == "healthy"
    assert [node["role"] for node in status["nodes"]] == ["primary", "replica", "replica"] + ["sentinel"] * 3
    assert not sentinel.deploy().json()["changed"]
    sentinel.run("destroy", "--confirm", "limiter")
    assert sentinel.processes() == []
