"""Edits of the topology of a running fleet: applied without a restart, or refused without any change."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from rlctl.secrets import Secret
from rlctl.system.redis import CommandFailed, Credentials, NodeLink
from tests.local.driver import PATIENCE_S, LocalFleet, cluster_document, sentinel_document
from tests.local.failures import assert_fails
from tests.local.trees import run_ids, settled_files

MIB = 1024 * 1024
ANOTHER = "#" + "0" * 64
DATA = [f"node-{index}" for index in range(6)]


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("edited"), document=cluster_document())
    yield from deployed(fleet)


@pytest.fixture(scope="module")
def edited_sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    fleet = LocalFleet(folder=tmp_path_factory.mktemp("edited-sentinel"), document=sentinel_document())
    yield from deployed(fleet)


def deployed(fleet: LocalFleet) -> Iterator[LocalFleet]:
    fleet.write()
    try:
        fleet.deploy()
        yield fleet
    finally:
        fleet.end_all()


def edit(fleet: LocalFleet, **sections: dict[str, Any]) -> None:
    for name, section in sections.items():
        fleet.document[name] = fleet.document.get(name, {}) | section
    fleet.write()


def setting(fleet: LocalFleet, node: str, name: str) -> str:
    client = fleet.connect(node)
    value = client.config_get(name)[name]
    client.close()
    return value


def static_conf(fleet: LocalFleet, node: str) -> list[str]:
    return (fleet.node_folder(node) / "static.conf").read_text(encoding="utf-8").splitlines()


def test_settings_of_the_topology_are_applied_live(edited: LocalFleet) -> None:
    ids = run_ids(edited)
    edit(edited, memory={"maxmemory": "72mb"}, consistency={"min_replicas": 1, "max_lag": "7s"})
    drifts = edited.status(expect=11)["findings"]
    assert {finding["code"] for finding in drifts} == {"setting-drift"}
    assert any("maxmemory 64mb, the topology says 72mb" in finding["text"] for finding in drifts)
    edited.run("deploy", "--dry-run", expect=10)
    assert setting(edited, "node-0", "maxmemory") == str(64 * MIB)
    done = edited.deploy().json()
    assert {step["kind"] for step in done["steps"]} == {"configure"}
    assert len(done["steps"]) == 3 * 6
    access = edited.access()
    for node in DATA:
        client = edited.connect(node, access=access)
        found = client.config_get("maxmemory", "min-replicas-*")
        client.close()
        wanted = {"maxmemory": str(72 * MIB), "min-replicas-to-write": "1", "min-replicas-max-lag": "7"}
        assert found == wanted
        assert {f"maxmemory {72 * MIB}", "min-replicas-to-write 1"} <= set(static_conf(edited, node))
    assert edited.status()["state"] == "healthy"
    assert run_ids(edited) == ids
    # A restart does not restore the old value.
    edited.kill("node-4")
    edited.deploy()
    assert setting(edited, "node-4", "maxmemory") == str(72 * MIB)


def test_a_setting_changed_by_hand_is_found_and_repaired(edited: LocalFleet) -> None:
    wanted = setting(edited, "node-1", "maxmemory")
    for node, rewrite in (("node-1", False), ("node-2", True)):
        client = edited.connect(node)
        client.config_set("maxmemory", 33 * MIB)
        if rewrite:
            client.config_rewrite()
        client.close()
    findings = edited.status(expect=11)["findings"]
    assert [(finding["code"], finding["subject"]) for finding in findings] == [
        ("setting-drift", "node-1"),
        ("setting-drift", "node-2"),
    ]
    checks = edited.run("doctor", "-o", "json", expect=None).json()["checks"]
    assert {check["subject"] for check in checks if check["name"] == "setting-drift"} == {"node-1", "node-2"}
    assert len(edited.deploy().json()["steps"]) == 2
    assert setting(edited, "node-1", "maxmemory") == setting(edited, "node-2", "maxmemory") == wanted
    # static.conf takes precedence over the file that the server rewrote.
    edited.kill("node-2")
    edited.deploy()
    assert setting(edited, "node-2", "maxmemory") == wanted
    assert edited.status()["state"] == "healthy"


def test_a_user_changed_by_hand_is_repaired(edited: LocalFleet) -> None:
    client = edited.connect("node-3")
    client.execute_command("ACL", "SETUSER", "rlctl-acl-revision", "resetpass", ">other")
    assert {finding["code"] for finding in edited.status(expect=11)["findings"]} == {"users-drift"}
    assert [step["kind"] for step in edited.deploy().json()["steps"]] == ["load-users"]
    client.close()
    assert edited.status()["state"] == "healthy"


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
def test_users_of_an_older_release_change_and_keep_their_connections(
    edited: LocalFleet, edited_sentinel: LocalFleet, kind: str
) -> None:
    """In Redis 7.0, ACL LOAD would close every connection, also those of replicas."""
    fleet = edited if kind == "cluster" else edited_sentinel
    names = [node["name"] for node in fleet.status()["nodes"]]
    data = [name for name in names if name.startswith("node-")]
    for name in names:
        outdate(fleet, name)
    with ExitStack() as stack:
        clients = {name: stack.enter_context(closing(link_as(fleet, name, "limiter"))) for name in names}
        ids = {name: client.call("CLIENT", "ID") for name, client in clients.items()}
        replicas = {name: linked_replicas(fleet, name) for name in data}
        assert not any(may_read_info(clients[name]) for name in data)
        steps = fleet.deploy().json()["steps"]
        assert {step["kind"] for step in steps} == {"load-users"}
        # A closed connection raises here.
        assert {name: client.call("CLIENT", "ID") for name, client in clients.items()} == ids
        assert all(may_read_info(clients[name]) for name in data)
        assert {name: linked_replicas(fleet, name) for name in data} == replicas
    assert any(replicas.values())
    for name in names:
        users = {line.split()[1]: line.split() for line in command(fleet, name, "ACL", "LIST")}
        assert "other" not in users
        assert "off" in users["default"]
    fleet.status()
    # The files have the change, too.
    fleet.kill(data[-1])
    fleet.deploy()
    with closing(link_as(fleet, data[-1], "limiter")) as client:
        assert may_read_info(client)


def outdate(fleet: LocalFleet, name: str) -> None:
    """Users as another release of rlctl may have left them, in memory and on disk."""
    for user, *rules in (
        ("limiter", "-info"),
        ("default", "on", ANOTHER),
        ("other", "on", ANOTHER, "+@all"),
        ("rlctl-acl-revision", "resetpass", ANOTHER),
    ):
        command(fleet, name, "ACL", "SETUSER", user, *rules)
    command(fleet, name, "ACL", "SAVE")


def command(fleet: LocalFleet, name: str, *words: object) -> Any:
    with closing(fleet.connect(name)) as client:
        return client.execute_command(*words)


def link_as(fleet: LocalFleet, name: str, who: str) -> NodeLink:
    """A connection that does not reconnect."""
    kind, _, index = name.partition("-")
    port = fleet.base_port + int(index) + (1000 if kind == "sentinel" else 0)
    access = fleet.access(who)
    login = Credentials(username=access["username"], password=Secret(access["password"]))
    return NodeLink("127.0.0.1", port, login, timeout_s=PATIENCE_S)


def may_read_info(client: NodeLink) -> bool:
    [answer] = client.pipeline([("INFO", "server")])
    return not (isinstance(answer, CommandFailed) and answer.prefix == "NOPERM")


def linked_replicas(fleet: LocalFleet, name: str) -> set[str]:
    with closing(fleet.connect(name)) as client:
        return {replica["id"] for replica in client.client_list(_type="replica")}


@pytest.mark.parametrize(
    ("section", "change", "says"),
    [
        ("cluster", {"shards": 4}, "cluster.shards 3"),
        ("local", {"base_port": 10500}, "local.base_port"),
        ("local", {"spread": True}, "local.spread"),
        ("security", {"tls": True}, "security.tls"),
        ("security", {"acl": False}, "security.acl"),
        ("engine", {"flavor": "valkey"}, "engine.flavor"),
        ("redis", {"databases": 4}, "databases is 16, the topology says 4"),
    ],
    ids=["shards", "base_port", "spread", "tls", "acl", "flavor", "needs a restart"],
)
def test_what_cannot_be_changed_is_refused(edited: LocalFleet, section: str, change: dict[str, Any], says: str) -> None:
    refused_untouched(edited, {section: edited.document.get(section, {}) | change}, says)


@pytest.mark.parametrize(("key", "value"), [("kind", "sentinel"), ("target", "docker"), ("target", "hosts")])
def test_another_kind_or_target_is_refused(edited: LocalFleet, key: str, value: str) -> None:
    hosts = [{"address": f"10.0.0.{index}"} for index in range(1, 7)]
    refused_untouched(edited, {key: value} | ({"hosts": hosts} if value == "hosts" else {}), value)


def refused_untouched(fleet: LocalFleet, change: dict[str, Any], says: str) -> None:
    document = fleet.document
    before = settled_files(fleet), run_ids(fleet)
    fleet.document = document | change
    fleet.write()
    try:
        assert_fails(fleet, "deploy", "--yes", code=8, name="refused", says=says)
        assert says in fleet.run("deploy", "--dry-run", expect=8).err
    finally:
        fleet.document = document
        fleet.write()
    assert (settled_files(fleet), run_ids(fleet)) == before
    assert fleet.status()["state"] == "healthy"


def test_more_replicas_join_a_cluster_and_fewer_are_refused(edited: LocalFleet) -> None:
    ids = run_ids(edited)
    edit(edited, cluster={"replicas": 2})
    assert edited.status(expect=11)["state"] == "degraded"
    done = edited.deploy().json()
    assert [step["text"] for step in done["steps"] if step["kind"] == "start-node"]
    status = edited.status()
    assert status["state"] == "healthy"
    shards = [node["shard"] for node in status["nodes"] if node["role"] == "replica"]
    assert sorted(shards) == [0, 0, 1, 1, 2, 2]
    assert ids.items() <= run_ids(edited).items()
    refused_untouched(edited, {"cluster": edited.document["cluster"] | {"replicas": 1}}, "cluster.replicas 2")


def test_sentinel_settings_are_applied_live(edited_sentinel: LocalFleet) -> None:
    fleet = edited_sentinel
    ids = run_ids(fleet)
    edit(fleet, sentinel={"down_after": "3s", "failover_timeout": "9s", "quorum": 3}, memory={"maxmemory": "72mb"})
    findings = fleet.status(expect=11)["findings"]
    assert {finding["code"] for finding in findings} == {"setting-drift"}
    assert {step["kind"] for step in fleet.deploy().json()["steps"]} == {"configure"}
    access = fleet.access()
    for index in range(3):
        client = fleet.connect(f"sentinel-{index}", access=access)
        [view] = client.sentinel_masters().values()
        client.close()
        assert (view["down-after-milliseconds"], view["failover-timeout"], view["quorum"]) == (3000, 9000, 3)
    assert setting(fleet, "node-2", "maxmemory") == str(72 * MIB)
    assert fleet.status()["state"] == "healthy"
    assert run_ids(fleet) == ids


def test_another_replica_joins_a_sentinel_fleet(edited_sentinel: LocalFleet) -> None:
    ids = run_ids(edited_sentinel)
    edit(edited_sentinel, sentinel={"replicas": 3})
    edited_sentinel.deploy()
    status = edited_sentinel.status()
    assert status["state"] == "healthy"
    assert [node["role"] for node in status["nodes"]].count("replica") == 3
    assert ids.items() <= run_ids(edited_sentinel).items()
    refused_untouched(
        edited_sentinel, {"sentinel": edited_sentinel.document["sentinel"] | {"replicas": 2}}, "sentinel.replicas 3"
    )
