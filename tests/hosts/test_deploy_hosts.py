"""rlctl deploys, repairs and destroys fleets on three machines, and names their problems."""

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlctl.targets.hosts.proofs import ANSWER_S
from tests.hosts.fleets import HostsFleet, path_of, power, with_hanging_ssh, without_sudo
from tests.lab.hosts import Lab
from tests.local.driver import wait_for

SEED = int(os.environ.get("RLCTL_SEED", "1"))


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """Machines of this module only, because it turns them off."""
    return make_lab("bookworm", "bookworm", "bookworm")


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostsFleet]:
    """A deployed cluster. A test that damages it must repair it."""
    fleet = HostsFleet.create(lab, tmp_path_factory.mktemp("cluster") / "env", "cluster")
    fleet.run("deploy", "--dry-run", expect=10)
    assert fleet.left() == "", "a dry run leaves a host as it was"
    done = fleet.deployed()
    kinds = [step["kind"] for step in done["steps"]]
    assert kinds[:3] == ["prepare-place"] * 3
    assert kinds.count("start-node") == 6
    yield fleet
    fleet.run("destroy", "--confirm", fleet.name)
    assert fleet.left() == ""
    assert fleet.run("destroy", "--confirm", fleet.name, "-o", "json").json()["changed"] is False


def test_a_deployed_fleet_is_healthy_and_needs_nothing(cluster: HostsFleet) -> None:
    assert cluster.status()["state"] == "healthy"
    assert cluster.deployed()["changed"] is False
    dry = cluster.run("deploy", "--dry-run")
    assert (dry.out, dry.err) == ("limiter: no change\n", ""), "and there is nothing to warn of"


def test_primaries_and_their_replicas_are_on_different_hosts(cluster: HostsFleet) -> None:
    nodes = cluster.status()["nodes"]
    shards = {number: {node["host"] for node in nodes if node["shard"] == number} for number in range(3)}
    assert {len(hosts) for hosts in shards.values()} == {2}
    assert len({node["host"] for node in nodes if node["role"] == "primary"}) == 3


def test_variables_beside_the_topology_count(cluster: HostsFleet) -> None:
    text = cluster.host("h1").exec("systemctl", "cat", cluster.unit("node-0"))
    assert "LimitNOFILE=40000" in text


def test_the_inventory_is_what_ansible_asks_for(cluster: HostsFleet) -> None:
    cluster.folder.joinpath("hosts.yml").write_text(cluster.run("inventory").out, encoding="utf-8")
    listed = subprocess.run(
        ["ansible-inventory", "-i", "hosts.yml", "--list"],
        cwd=cluster.folder,
        env=cluster.env(),
        capture_output=True,
        text=True,
        check=True,
    )
    variables = json.loads(listed.stdout)["_meta"]["hostvars"]["h1"]
    assert variables["rlctl_fleet"] == "limiter"
    assert [one["name"] for one in variables["redis_node_instances"]] == ["node-0", "node-5"]
    assert variables["redis_host_open_files"] == 40_000


def test_commands_that_use_the_fleet_work_as_everywhere(cluster: HostsFleet) -> None:
    assert cluster.run("limit", "--algorithm", "fixed_window", "someone", "-o", "json", expect=None).code == 0
    assert cluster.run("scripts", "status").code == 0
    assert len(cluster.access()["nodes"]) == 6
    assert cluster.run("history", "-o", "json").json()["operations"]


def test_a_stopped_node_is_named_and_started_again(cluster: HostsFleet) -> None:
    cluster.stop("node-3")
    status = cluster.status(expect=11)
    assert any("node-3 is down" in finding["text"] for finding in status["findings"])
    assert [step["kind"] for step in cluster.deployed()["steps"]] == ["start-node", "load-scripts"]
    assert cluster.status()["state"] == "healthy"


def test_a_failover_is_never_undone(cluster: HostsFleet) -> None:
    cluster.stop("node-0")

    def has_failed_over() -> bool:
        nodes = {node["name"]: node for node in cluster.run("status", "-o", "json", expect=None).json()["nodes"]}
        return nodes["node-3"]["role"] == "primary"

    wait_for(has_failed_over, "node-3 takes over")
    cluster.deploy()
    roles = {node["name"]: node["role"] for node in cluster.status()["nodes"]}
    assert (roles["node-3"], roles["node-0"]) == ("primary", "replica")
    assert cluster.deployed()["changed"] is False


def test_a_changed_setting_reaches_files_and_servers(cluster: HostsFleet) -> None:
    cluster.document["memory"] = {"maxmemory": "80mb"}
    cluster.write()
    kinds = {step["kind"] for step in cluster.deployed()["steps"]}
    assert kinds == {"prepare-place", "configure"}
    text = cluster.host("h1").exec("cat", "/etc/rlctl/limiter/node-0/static.conf")
    assert f"maxmemory {80 * 1024**2}" in text


def test_directives_that_the_hosts_servers_refuse_change_nothing(cluster: HostsFleet) -> None:
    text = cluster.host("h1").exec("cat", "/etc/rlctl/limiter/node-0/static.conf")
    cluster.document["redis"] = {"hz": "fast", "no-such-thing": "1"}
    cluster.write()
    try:
        for words in (("deploy", "--yes"), ("deploy", "--dry-run")):
            said = cluster.run(*words, "-o", "json", expect=3).error()["message"].splitlines()
            assert [line.partition("redis.")[2].partition(":")[0] for line in said] == ["hz", "no-such-thing"]
            assert "host h1, host h2, host h3 do not start with `hz fast`: argument couldn't be parsed" in said[0]
            assert f"{cluster.file}:" in said[0]
    finally:
        del cluster.document["redis"]
        cluster.write()
    assert cluster.host("h1").exec("cat", "/etc/rlctl/limiter/node-0/static.conf") == text
    left = "pgrep -fa '[t]rial.conf'; ls -d /tmp/rlctl-trial-* 2>/dev/null; true"
    assert not cluster.host("h1").exec("sh", "-c", left)
    assert cluster.is_in_order()


def test_what_a_hand_changed_on_a_host_is_put_right(cluster: HostsFleet) -> None:
    cluster.host("h2").exec("sh", "-c", "echo 'maxmemory 1mb' >> /etc/rlctl/limiter/node-1/static.conf")
    planned = cluster.run("deploy", "--dry-run", "-o", "json", expect=10).json()["steps"]
    assert [(step["kind"], step["text"].split(":")[0]) for step in planned] == [("prepare-place", "host h2")]
    assert [step["outcome"] for step in cluster.deployed()["steps"]] == ["done"]


def test_a_host_that_is_off_is_named_and_what_it_held_comes_back(cluster: HostsFleet) -> None:
    power(cluster.host("h3"), on=False)
    try:
        status = cluster.run("status", "-o", "json", expect=None)
        assert status.code in {11, 12}, "a replica may have taken over by now, or not"
        texts = " ".join(finding["text"] for finding in status.json()["findings"])
        assert "host h3 cannot be reached" in texts
        refused = cluster.deploy(expect=None)
        assert refused.code in {6, 13}
        assert "host h3 cannot be reached" in refused.error()["message"]
        assert "  host h3: " not in refused.err, "a playbook waits for a host of which it is known that it is off"
    finally:
        power(cluster.host("h3"), on=True)
    wait_for(lambda: cluster.lab.ssh(cluster.host("h3"), "true").returncode == 0, "h3 is back")
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"


def another_operator(fleet: HostsFleet, folder: Path) -> HostsFleet:
    """The same topology and secrets with another state folder."""
    fleet.run("secrets", "export", str(folder / "secrets.json"))
    theirs = HostsFleet.create(fleet.lab, folder / "env", "cluster", memory=fleet.document["memory"])
    theirs.run("secrets", "import", str(folder / "secrets.json"))
    return theirs


def test_another_operator_finds_the_same_fleet_in_order(cluster: HostsFleet, tmp_path: Path) -> None:
    theirs = another_operator(cluster, tmp_path)
    assert theirs.status()["state"] == "healthy"
    assert theirs.is_in_order()


def test_who_is_shut_out_by_the_firewall_is_told_so_and_let_in_by_a_deploy(cluster: HostsFleet) -> None:
    """The firewalls block the operator's address, as that of a second operator. A deploy adds the address."""
    settings = "/etc/rlctl/limiter"
    for host in cluster.lab.hosts:
        own = host.exec("cat", f"{settings}/operators").strip()
        forget = f"sed -i 's/{own}/192.0.2.9/' {settings}/operators {settings}/firewall.nft"
        host.exec("sh", "-c", f"{forget} && nft -f {settings}/firewall.nft")
    (finding,) = cluster.status(expect=11)["findings"]
    assert (finding["code"], finding["subject"]) == ("node-unknown", "fleet")
    assert "may not admit this machine" in finding["text"]
    cluster.deploy()
    assert cluster.status()["state"] == "healthy"


def site(fleet: HostsFleet) -> "subprocess.CompletedProcess[str]":
    """Deploy with the playbooks by hand."""
    inventory = fleet.folder / "hosts.yml"
    inventory.write_text(fleet.run("inventory").out, encoding="utf-8")
    playbooks = Path(__file__).parents[2] / "playbooks"
    return subprocess.run(
        ["ansible-playbook", "-i", str(inventory), str(playbooks / "site.yml")],
        cwd=playbooks,
        env=fleet.env(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_its_secrets_nobody_changes_or_removes_a_fleet(cluster: HostsFleet, tmp_path: Path) -> None:
    theirs = HostsFleet.create(cluster.lab, tmp_path / "env", "cluster")
    before = settings(cluster)
    commands = (("deploy", "--yes"), ("deploy", "--dry-run"), ("destroy", "--confirm", cluster.name))
    for words in commands:
        error = theirs.run(*words, "-o", "json", expect=4).error()
        assert "its secrets are not on this machine" in error["message"]
        assert "rlctl secrets import" in error["hint"]
    done = site(theirs)
    assert done.returncode == 2
    assert "its secrets are not on this machine" in done.stdout
    recap = done.stdout.partition("PLAY RECAP")[2]
    assert (recap.count("failed=1"), recap.count("changed=0")) == (3, 4), done.stdout
    assert settings(cluster) == before
    assert cluster.is_in_order()


def settings(fleet: HostsFleet) -> list[str]:
    """The files on each host, with the content of those that no server writes."""
    script = "find /var/lib/rlctl -name '*.conf*' ! -name '*.tmp*'; find /etc/rlctl -type f -exec md5sum {} +"
    return ["".join(sorted(host.exec("sh", "-c", script).splitlines())) for host in fleet.lab.hosts]


def with_wrong_keys(lab: Lab, folder: Path) -> Path:
    """The lab's ssh with the first machine's host key recorded for the second and third."""
    key = " ".join(lab.known_hosts.read_text(encoding="ascii").splitlines()[0].split()[1:])
    known, config, programs = folder / "known_hosts", folder / "ssh_config", folder / "bin"
    known.write_text("".join(f"{host.address} {key}\n" for host in lab.hosts), encoding="ascii")
    config.write_text(
        lab.ssh_config.read_text(encoding="utf-8").replace(str(lab.known_hosts), str(known)), encoding="utf-8"
    )
    programs.mkdir()
    for program in ("ssh", "scp", "sftp"):
        text = (lab.bin / program).read_text(encoding="utf-8")
        (programs / program).write_text(text.replace(str(lab.ssh_config), str(config)), encoding="utf-8")
        (programs / program).chmod(0o755)
    return programs


def test_a_wrong_host_key_is_refused(cluster: HostsFleet, tmp_path: Path) -> None:
    theirs = another_operator(cluster, tmp_path)
    theirs.extra_env["PATH"] = path_of(with_wrong_keys(cluster.lab, tmp_path))
    error = theirs.deploy(expect=6).error()
    assert error["code"] == "host-refused"
    assert "host h2: its host key is not the one that is known" in error["message"]
    assert "host h1" not in error["message"]
    assert "ssh-keygen -R" in error["hint"]
    assert_only_unproven(theirs.status(expect=11), cluster.nodes_of("h2", "h3"), "its host key is not the one")


def assert_only_unproven(status: dict[str, Any], nodes: set[str], reason: str) -> None:
    """Assert that these nodes got no password, for this reason, and that all others are healthy."""
    found = {(one["code"], one["severity"], one["subject"]) for one in status["findings"]}
    assert found == {("node-unproven", "degraded", node) for node in nodes}
    assert all(reason in one["text"] for one in status["findings"])
    assert {node["name"] for node in status["nodes"] if node["unproven"]} == nodes
    assert {node["name"] for node in status["nodes"] if not node["alive"]} == nodes


def test_refused_sudo_is_named(cluster: HostsFleet) -> None:
    on_h2 = cluster.nodes_of("h2")
    shards = {node["shard"] for node in cluster.status()["nodes"] if node["name"] in on_h2}
    with without_sudo(cluster.host("h2")):
        error = cluster.deploy(expect=6).error()
        assert error["code"] == "host-refused"
        assert "host h2: sudo refused" in error["message"]
        assert "sudo -n" in error["hint"]
        reason = "host h2 did not confirm that its unit holds the port: sudo refused"
        assert_only_unproven(cluster.status(expect=11), on_h2, reason)
        assert cluster.run("status", expect=11).out.count("unproven (") == len(on_h2)
        assert cluster.run("status", "--views", "-o", "json", expect=None).json()["conflicts"] == []
        for shard in shards:
            refused = cluster.run("failover", str(shard), "--dry-run", "-o", "json", expect=8).error()
            assert "repair ssh and sudo to the host" in refused["hint"]
    wait_for(lambda: cluster.run("status", expect=None).code == 0, "all nodes are proven again")


def test_a_host_whose_ssh_hangs_is_named_and_delays_little(cluster: HostsFleet) -> None:
    on_h2 = cluster.nodes_of("h2")
    with with_hanging_ssh(cluster.host("h2")):
        began_s = time.monotonic()
        status = cluster.status(expect=11)
        # Two nodes wait for one answer; a busy machine adds some seconds.
        assert time.monotonic() - began_s < 2 * ANSWER_S
        assert_only_unproven(status, on_h2, "did not confirm that its unit holds the port: no answer within")
    wait_for(lambda: cluster.run("status", expect=None).code == 0, "all nodes are proven again")


def test_a_host_that_cannot_carry_the_fleet_is_refused_with_the_reason(lab: Lab, tmp_path: Path) -> None:
    fleet = HostsFleet.create(lab, tmp_path / "env", "sentinel", name="other", local={"base_port": 9000})
    variables = fleet.folder / "group_vars" / "rlctl_hosts.yml"
    text = variables.read_text(encoding="utf-8")
    variables.write_text(f"{text}redis_host_min_free_bytes: {2**60}\n", encoding="utf-8")
    refused = fleet.deploy(expect=6).error()["message"]
    assert "MiB are free" in refused
    assert "items failed" not in refused


def test_a_new_fleet_with_a_host_that_does_not_answer_touches_nothing(lab: Lab, tmp_path: Path) -> None:
    fleet = HostsFleet.create(lab, tmp_path / "env", "sentinel", name="other", local={"base_port": 9000})
    fleet.document["hosts"][2]["address"] = lab.hosts[2].address.rpartition(".")[0] + ".250"
    fleet.write()
    error = fleet.deploy(expect=6).error()
    assert "host h3 cannot be reached" in error["message"]
    assert not fleet.lab.hosts[0].exec("sh", "-c", "ls -d /etc/rlctl/other 2>/dev/null; true")


def test_killed_and_ended_anywhere_a_deploy_is_carried_on(lab: Lab, tmp_path: Path) -> None:
    """Deploy a Sentinel fleet beside the cluster: two deploys are interrupted, the third succeeds."""
    fleet = HostsFleet.create(lab, tmp_path / "env", "sentinel", name="beside", local={"base_port": 9000})
    chance = random.Random(SEED)  # noqa: S311 - moments, no secrets
    try:
        for number in (signal.SIGKILL, signal.SIGTERM):
            deploying = fleet.spawn("deploy", "--yes")
            try:
                deploying.wait(timeout=chance.uniform(1, 15))
            except subprocess.TimeoutExpired:
                deploying.send_signal(number)
            _out, said = deploying.communicate(timeout=60)
            assert deploying.returncode in {0, -signal.SIGKILL, 143}, said
        fleet.deploy()
        assert fleet.status()["state"] == "healthy"
        assert fleet.deployed()["changed"] is False
    finally:
        fleet.run("destroy", "--confirm", fleet.name)
    assert "beside" not in fleet.left()


def test_playbooks_by_hand_and_rlctl_agree(lab: Lab, cluster: HostsFleet) -> None:
    """site.yml changes nothing after rlctl, and rlctl changes nothing after site.yml."""
    done = site(cluster)
    assert done.returncode == 0, done.stdout
    recap = done.stdout.partition("PLAY RECAP")[2]
    assert recap.count("changed=0") == len(lab.hosts) + 1, done.stdout
    assert cluster.is_in_order()
