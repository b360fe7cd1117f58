"""Views of real servers: in agreement, then with a second primary, a fence and a dead node."""

from typing import Any

from tests.local.driver import LocalFleet, wait_for


def views(fleet: LocalFleet, expect: int | None = 0, *words: str) -> dict[str, Any]:
    return fleet.run("status", "--views", *words, "-o", "json", expect=expect).json()


def codes(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["code"], one["subject"]) for one in document["conflicts"]}


def of(document: dict[str, Any], node: str) -> dict[str, Any]:
    return next(one for one in document["primaries"] if one["node"] == node)


def test_a_healthy_cluster_is_of_one_mind(shared_cluster: LocalFleet) -> None:
    document = views(shared_cluster)
    assert (document["schema"], document["kind"], document["agree"]) == ("rlctl.status-views/1", "cluster", True)
    assert document["conflicts"] == []
    assert [one["shard"] for one in document["primaries"]] == [0, 1, 2]
    assert all(one["writable"] and one["wins"] and one["believed_by"] == 6 for one in document["primaries"])
    names = {str(one["shard"]): one["node"] for one in document["primaries"]}
    assert all(view["primaries"] == names and view["ok"] and view["answers"] for view in document["views"])
    assert len(document["views"]) == 6
    told = shared_cluster.run("status", "--views").out.splitlines()
    assert told[0].startswith("agreeing fleet shared, cluster, 6 views")
    assert max(map(len, told)) <= 80


def test_a_healthy_sentinel_fleet_is_of_one_mind(shared_sentinel: LocalFleet) -> None:
    document = views(shared_sentinel)
    assert document["agree"] is True
    [primary] = document["primaries"]
    assert (primary["believed_by"], primary["asked"], primary["writable"], primary["wins"]) == (6, 6, True, True)
    for view in document["views"]:
        assert (view["failed"], view["suspected"], view["unknown"]) == ([], [], [])
        assert view["ok"] is (True if view["role"] == "sentinel" else None)


def test_an_absent_fleet(cluster: LocalFleet) -> None:
    document = views(cluster, expect=5)
    assert (document["agree"], document["views"], document["primaries"]) == (False, [], [])


def test_a_rival_behind_sentinels(sentinel: LocalFleet) -> None:
    """A replica promoted by hand accepts writes until the sentinels demote it; every view names the winner."""
    sentinel.deploy()
    rival = sentinel.connect("node-1")
    # Sentinels demote the second primary after a while, which must not happen before the test has seen it.
    sentinel.kill("sentinel-0", "sentinel-1", "sentinel-2")
    rival.execute_command("REPLICAOF", "NO", "ONE")
    rival.close()
    document = views(sentinel, expect=12)
    assert codes(document) == {("two-writers", "shard 0"), ("views-split", "shard 0")}
    assert [(one["node"], one["writable"], one["wins"]) for one in document["primaries"]] == [
        ("node-0", True, True),
        ("node-1", True, False),
    ]
    assert "the writes on node-1 are lost" in document["conflicts"][0]["text"]

    sentinel.run("fence", "node-1", "--confirm", sentinel.name)
    document = views(sentinel, expect=11)
    assert codes(document) == {("views-split", "shard 0"), ("node-fenced", "node-1")}
    assert (of(document, "node-1")["writable"], of(document, "node-1")["fenced"]) == (False, True)
    sentinel.run("unfence", "node-1", "--yes")

    sentinel.deploy()
    views(sentinel, 0, "--wait", "--timeout", "60s")


def test_a_dead_primary_and_its_successor(cluster: LocalFleet) -> None:
    cluster.deploy()
    cluster.kill("node-0")
    wait_for(lambda: views(cluster, None)["primaries"][0]["node"] == "node-3", "node-3 taking over")
    document = views(cluster, 0, "--wait", "--timeout", "60s")
    assert (of(document, "node-3")["believed_by"], of(document, "node-3")["asked"]) == (5, 5)
    dead = next(view for view in document["views"] if view["node"] == "node-0")
    assert (dead["answers"], dead["role"], dead["primaries"]) == (False, None, {})
    assert all(view["failed"] == ["node-0"] for view in document["views"] if view["answers"])
