"""The playbooks by hand: first run, second run, run after a failover, beside another fleet, and removal."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import testinfra
from testinfra.host import Host

from rlctl.assets import asset_folder
from tests.hosts.playbooks import HandRun, Played, holds
from tests.lab.hosts import Lab


def inside(lab: Lab, number: int = 0) -> Host:
    """A testinfra host with root privileges."""
    return testinfra.get_host(f"ssh://{lab.hosts[number].address}", ssh_config=str(lab.ssh_config), sudo=True)


def root(lab: Lab, command: str, number: int = 0) -> str:
    return lab.hosts[number].exec("sh", "-c", command)


@pytest.fixture(scope="module")
def story(make_lab: Callable[..., Lab], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The life of a Sentinel fleet by hand, recorded once. Each test checks one part of it."""
    lab = make_lab("bookworm", "bookworm", "bookworm")
    run = HandRun.create(lab, tmp_path_factory.mktemp("story"), sentinel={"replicas": 2, "sentinels": 3})
    told: dict[str, Played] = {
        "predicted": run.must_play("place", "--check", "--diff"),
        "placed": run.must_play("place"),
    }
    told["again"] = run.must_play("place")
    told["started"] = run.start()
    Fleet.run = run
    return told


class Fleet:
    """The fleet of the recorded life."""

    run: HandRun


@pytest.mark.usefixtures("story")
class TestPlaced:
    def test_check_mode_predicted_exactly_what_changed(self, story: dict[str, Played]) -> None:
        assert story["predicted"].changed() == story["placed"].changed()
        assert any(story["placed"].changed().values())

    def test_the_second_run_changed_nothing(self, story: dict[str, Played]) -> None:
        assert {story["again"].recap(host)["changed"] for host in ("h1", "h2", "h3")} == {0}

    def test_everything_runs_and_comes_with_the_host(self) -> None:
        for name in ("node-0", "node-1", "node-2", "sentinel-0", "sentinel-1", "sentinel-2"):
            assert Fleet.run.state(name) == "active"
        host = inside(Fleet.run.lab)
        assert host.service(Fleet.run.unit("node-0")).is_enabled
        assert host.service(Fleet.run.unit("sentinel-0")).is_enabled
        assert host.service("rlctl-limiter-firewall").is_enabled

    def test_the_package_came_and_its_own_instance_never_ran(self) -> None:
        host = inside(Fleet.run.lab)
        assert host.package("redis-server").is_installed
        assert host.service("redis-server").is_masked
        assert not host.socket("tcp://127.0.0.1:6379").is_listening

    def test_kernel_settings_are_written(self) -> None:
        host = inside(Fleet.run.lab)
        text = host.file("/etc/sysctl.d/60-rlctl.conf").content_string
        assert "vm.overcommit_memory = 1\n" in text
        assert "net.core.somaxconn = 4096\n" in text
        assert "transparent_hugepage/enabled - - - - never" in host.file("/etc/tmpfiles.d/60-rlctl.conf").content_string

    def test_limits_and_sandbox_are_in_force(self) -> None:
        host = inside(Fleet.run.lab)
        wanted = {"LimitNOFILE": "65536", "UMask": "0077", "User": "rlctl", "ProtectSystem": "strict", "Type": "notify"}
        wanted |= {"NoNewPrivileges": "yes", "MemoryDenyWriteExecute": "yes", "CapabilityBoundingSet": ""}
        shown = host.check_output(f"systemctl show -p {','.join(wanted)} {Fleet.run.unit('node-0')}")
        assert dict(line.split("=", 1) for line in shown.splitlines()) == wanted
        level = host.check_output(f"systemd-analyze security --no-pager {Fleet.run.unit('node-0')}").splitlines()[-1]
        assert float(level.split(": ")[1].split()[0]) < 2.0

    def test_units_have_user_namespaces_where_the_host_allows_them(self) -> None:
        """Without a setting, each host is checked. The lab's hosts allow user namespaces, but not with ProtectProc."""
        unit = inside(Fleet.run.lab).check_output(f"systemctl cat {Fleet.run.unit('node-0')}")
        assert "PrivateUsers=no\n" in unit
        sandbox = unit.partition("[Service]\n")[2].partition("[Install]")[0].partition("User=rlctl")[2]
        assert namespaces(Fleet.run, sandbox) == {"possible": False}
        assert namespaces(Fleet.run, sandbox.replace("ProtectProc=invisible\n", "")) == {"possible": True}
        unclear = namespaces(Fleet.run, f"{sandbox}ProtectProc=sometimes\n")
        assert "set redis_host_private_users to true or false" in str(unclear["msg"]).lower()

    @pytest.mark.parametrize(
        ("path", "owner", "mode"),
        [
            pytest.param("/etc/rlctl/limiter/node-0", "root", 0o750, id="settings"),
            pytest.param("/etc/rlctl/limiter/node-0/static.conf", "root", 0o640, id="static-conf"),
            pytest.param("/etc/rlctl/limiter/sentinel-0/users.acl", "root", 0o640, id="users"),
            pytest.param("/var/lib/rlctl/limiter/node-0", "rlctl", 0o700, id="data"),
            pytest.param("/var/lib/rlctl/limiter/node-0/node.conf", "rlctl", 0o600, id="node-conf"),
            pytest.param("/var/lib/rlctl/limiter/sentinel-0/sentinel.conf", "rlctl", 0o600, id="sentinel-conf"),
            pytest.param("/usr/lib/rlctl/start-guard", "root", 0o755, id="guard"),
        ],
    )
    def test_files_are_their_owners_alone(self, path: str, owner: str, mode: int) -> None:
        file = inside(Fleet.run.lab).file(path)
        assert (file.user, file.mode) == (owner, mode)

    def test_static_settings_and_the_servers_own_are_apart(self) -> None:
        host = inside(Fleet.run.lab)
        assert "maxmemory" in host.file("/etc/rlctl/limiter/node-0/static.conf").content_string
        assert "sentinel myid" in host.file("/var/lib/rlctl/limiter/sentinel-0/sentinel.conf").content_string
        assert "myid" not in host.file("/etc/rlctl/limiter/sentinel-0/static.conf").content_string

    def test_roles_and_users(self) -> None:
        with Fleet.run.admin("node-0") as admin:
            assert admin.role()[0] == "master"
            assert {line.split()[1] for line in admin.acl_list()} >= {"rlctl", "limiter", "monitor", "default"}
            assert "user default off" in next(line for line in admin.acl_list() if line.startswith("user default"))
        with Fleet.run.admin("node-1") as admin:
            assert admin.role()[0] == "slave"

    def test_sockets_listen_on_the_hosts_address_only(self) -> None:
        host, address = inside(Fleet.run.lab), Fleet.run.lab.hosts[0].address
        for port in (Fleet.run.spec("node-0").port, Fleet.run.spec("sentinel-0").port):
            assert host.socket(f"tcp://{address}:{port}").is_listening
            assert not host.socket(f"tcp://127.0.0.1:{port}").is_listening

    def test_ports_are_closed_to_strangers(self) -> None:
        """A second address of a host does not belong to the fleet."""
        lab, spec = Fleet.run.lab, Fleet.run.spec("node-0")
        own = lab.hosts[1].address
        stranger = own.rsplit(".", 1)[0] + ".250"
        knock = "timeout 3 python3 -c 'import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2, "
        knock += "(sys.argv[3], 0))' {} {} {} && echo open || echo closed"
        root(lab, f"ip address add {stranger}/24 dev eth0", 1)
        try:
            assert root(lab, knock.format(spec.address, spec.port, stranger), 1).strip() == "closed"
            assert root(lab, knock.format(spec.address, spec.port, own), 1).strip() == "open"
        finally:
            root(lab, f"ip address del {stranger}/24 dev eth0", 1)

    def test_a_flushed_ruleset_is_loaded_again(self) -> None:
        root(Fleet.run.lab, "nft flush ruleset")
        assert Fleet.run.must_play("place", "--limit", "h1", "--tags", "host").recap("h1")["changed"] == 1
        assert "chain revision_" in root(Fleet.run.lab, "nft list table inet rlctl_limiter")

    def test_check_finds_nothing_wrong_and_names_what_is(self) -> None:
        assert Fleet.run.must_play("check").recap("h1")["changed"] == 0
        root(Fleet.run.lab, "chmod 644 /etc/rlctl/limiter/node-0/static.conf")
        found = Fleet.run.play("check", "--limit", "h1")
        assert found.code == 2
        assert "other users may read /etc/rlctl/limiter/node-0/static.conf" in found.out
        predicted = Fleet.run.must_play("place", "--check", "--limit", "h1").recap("h1")["changed"]
        assert predicted == Fleet.run.must_play("place", "--limit", "h1").recap("h1")["changed"] == 1

    def test_no_secret_in_arguments_output_journal_or_caches(self) -> None:
        run = Fleet.run
        root(run.lab, "rm /etc/rlctl/limiter/*/static.conf /etc/rlctl/limiter/*/users.acl")
        with watched_arguments() as arguments:
            played = run.must_play("place", "-vvv", "--diff", "--limit", "h1")
        assert played.recap("h1")["changed"] > 0
        said = (
            f"{played.out}{played.err}{root(run.lab, 'journalctl --no-pager; cat /root/.ansible* 2>/dev/null; true')}"
        )
        cached = "".join(read(path) for path in (run.folder / "ansible").rglob("*"))
        assert any("ansible-playbook" in line for line in arguments)
        for secret in run.secrets():
            for place, text in {"output": said, "arguments": "".join(arguments), "cache": cached}.items():
                assert secret not in text, place

    def test_after_a_failover_nothing_is_undone(self) -> None:
        with Fleet.run.admin("sentinel-0") as sentinel:
            holds(lambda: sentinel.execute_command("SENTINEL", "CKQUORUM", "limiter"), "sentinels agree")
            before = inside(Fleet.run.lab).file("/var/lib/rlctl/limiter/sentinel-0/sentinel.conf").content_string
            sentinel.execute_command("SENTINEL", "FAILOVER", "limiter")
        with Fleet.run.admin("node-0") as admin:
            holds(lambda: admin.role()[0] == "slave", "the old primary follows")
        again = Fleet.run.must_play("place", "--diff")
        assert {again.recap(host)["changed"] for host in ("h1", "h2", "h3")} == {0}
        assert inside(Fleet.run.lab).file("/var/lib/rlctl/limiter/sentinel-0/sentinel.conf").content_string != before
        with Fleet.run.admin("node-0") as admin:
            assert admin.role()[0] == "slave"

    def test_starting_what_runs_changes_nothing(self) -> None:
        assert {Fleet.run.start().recap(host)["changed"] for host in ("h1", "h2", "h3")} == {0}

    def test_a_changed_unit_is_predicted_exactly(self) -> None:
        """This is a live fleet: systemd sees a changed file only after it was written."""
        predicted = Fleet.run.must_play("place", "--check", redis_host_open_files=30_000)
        assert predicted.changed() == Fleet.run.must_play("place", redis_host_open_files=30_000).changed()
        tasks = {task for _host, task in predicted.changes()}
        assert {task.rpartition(" : ")[2] for task in tasks} == {
            *("Place the unit of data nodes", "Enable the units of data nodes"),
            *("Place the unit of sentinels", "Enable the units of sentinels"),
        }
        assert "LimitNOFILE=30000" in root(Fleet.run.lab, f"systemctl show -p LimitNOFILE {Fleet.run.unit('node-0')}")
        Fleet.run.must_play("place")

    def test_a_crashed_node_with_its_log_comes_back_by_itself(self) -> None:
        before = root(Fleet.run.lab, f"systemctl show -p MainPID --value {Fleet.run.unit('node-0')}").strip()
        root(Fleet.run.lab, f"kill -9 {before}")
        wanted = f"systemctl show -p MainPID --value {Fleet.run.unit('node-0')}"
        holds(lambda: root(Fleet.run.lab, wanted).strip() not in {before, "0"}, "systemd restarted it")
        holds(lambda: Fleet.run.state("node-0") == "active", "it is up")

    def test_a_drill_holds_automatic_restarts(self) -> None:
        unit = Fleet.run.unit("node-0")
        root(Fleet.run.lab, "echo $(($(date +%s) + 600)) >/run/rlctl/limiter/hold")
        root(Fleet.run.lab, f"kill -9 $(systemctl show -p MainPID --value {unit})")
        holds(lambda: Fleet.run.state("node-0") == "inactive", "it stays down")
        root(Fleet.run.lab, f"echo 1 >/run/rlctl/limiter/hold; systemctl start {unit}")
        assert Fleet.run.state("node-0") == "active"
        root(Fleet.run.lab, "rm /run/rlctl/limiter/hold")

    def test_destroy_leaves_the_packages_and_says_so(self) -> None:
        Neighbour.move_in(Fleet.run.lab)
        predicted, destroyed = Fleet.run.must_play("destroy", "--check"), Fleet.run.must_play("destroy")
        assert predicted.changed() == destroyed.changed()
        assert destroyed.out.count("redis-tools: still installed") == 3
        assert {Fleet.run.must_play("destroy").recap(host)["changed"] for host in ("h1", "h2", "h3")} == {0}
        for number in range(3):
            assert inside(Fleet.run.lab, number).service("redis-server").is_masked
            assert root(Fleet.run.lab, "find /etc/rlctl -type f", number) == "/etc/rlctl/.host/packages.json\n"
        by_rlctl = Fleet.run.rlctl("destroy", "--confirm", "limiter")
        assert "limiter: no nodes found\nh1, h2, h3: " in by_rlctl.stdout
        assert "redis-server, redis-tools: still installed" in by_rlctl.stdout
        assert "`rlctl destroy --packages` removes the packages" in by_rlctl.stderr
        Neighbour.is_as_it_was(Fleet.run.lab)

    def test_packages_are_removed_only_where_nothing_else_uses_them(self) -> None:
        predicted = Fleet.run.must_play("destroy", "--check", redis_host_remove_packages=True)
        destroyed = Fleet.run.must_play("destroy", redis_host_remove_packages=True)
        assert predicted.changed() == destroyed.changed()
        assert {host: destroyed.recap(host)["changed"] > 0 for host in ("h1", "h2", "h3")} == {
            "h1": False,
            "h2": True,
            "h3": True,
        }
        assert_nothing_left(Fleet.run.lab, 1)
        assert_nothing_left(Fleet.run.lab, 2)
        by_rlctl = Fleet.run.rlctl("destroy", "--confirm", "limiter", "--packages", "-o", "json")
        told = json.loads(by_rlctl.stdout)
        assert (told["changed"], list(told["packages_kept"])) == (False, ["h1"])
        assert "still installed (used by redis-server (pid " in told["packages_kept"]["h1"]
        assert "/etc/systemd/system/neighbour.service refers to /usr/bin/redis-server" in told["packages_kept"]["h1"]
        Neighbour.is_as_it_was(Fleet.run.lab)

    def test_packages_stay_for_the_files_of_a_neighbour_that_does_not_run(self) -> None:
        Neighbour.stop(Fleet.run.lab)
        told = json.loads(Fleet.run.rlctl("destroy", "--confirm", "limiter", "--packages", "-o", "json").stdout)
        assert "/var/lib/redis/neighbour.rdb is not from a package" in told["packages_kept"]["h1"]
        assert Neighbour.files(Fleet.run.lab) == Neighbour.before

    def test_packages_are_removed_once_the_neighbour_is_gone(self) -> None:
        Neighbour.move_out(Fleet.run.lab)
        told = json.loads(Fleet.run.rlctl("destroy", "--confirm", "limiter", "--packages", "-o", "json").stdout)
        assert (told["changed"], told["packages_kept"]) == (True, {})
        assert_nothing_left(Fleet.run.lab, 0)


def namespaces(run: HandRun, sandbox: str) -> dict[str, object]:
    """The result of the check module on the first host."""
    program = str(Path(sys.executable).with_name("ansible"))
    env = {**run.env(), "ANSIBLE_LIBRARY": str(asset_folder("playbooks") / "library")}
    argv = [program, "-i", str(run.inventory), "h1", "-b", "-m", "rlctl_private_users"]
    done = subprocess.run(
        [*argv, "-a", json.dumps({"sandbox": sandbox})], env=env, capture_output=True, text=True, check=False
    )
    answer = done.stdout.partition("h1 | ")[2].partition("=> ")[2]
    assert answer, done.stdout + done.stderr
    found, _ = json.JSONDecoder().raw_decode(answer)
    return {name: found[name] for name in ("possible", "msg") if name in found}


class Neighbour:
    """The Redis of another team on the first host, from the binary that rlctl installed."""

    before: tuple[str, str]
    _conf, _unit = "/etc/redis/neighbour.conf", "/etc/systemd/system/neighbour.service"

    @classmethod
    def move_in(cls, lab: Lab) -> None:
        conf = "port 6400\\ndir /var/lib/redis\\ndbfilename neighbour.rdb\\n"
        unit = f"[Service]\\nUser=redis\\nExecStart=/usr/bin/redis-server {cls._conf}\\n"
        root(lab, f"printf '{conf}' >{cls._conf}; printf '{unit}' >{cls._unit}; systemctl daemon-reload")
        root(lab, "systemctl start neighbour")
        holds(lambda: "PONG" in root(lab, "redis-cli -p 6400 ping; true"), "the neighbour answers")
        assert root(lab, "redis-cli -p 6400 set theirs kept; redis-cli -p 6400 save").split() == ["OK", "OK"]
        cls.before = cls.files(lab)

    @classmethod
    def files(cls, lab: Lab) -> tuple[str, str]:
        """The process of the other Redis and its files, which rlctl must not change."""
        pid = root(lab, "systemctl show -p MainPID --value neighbour").strip()
        return pid, root(lab, f"md5sum {cls._conf} {cls._unit} /var/lib/redis/neighbour.rdb 2>/dev/null; true")

    @classmethod
    def is_as_it_was(cls, lab: Lab) -> None:
        assert cls.files(lab) == cls.before
        assert root(lab, "redis-cli -p 6400 get theirs") == "kept\n"

    @classmethod
    def stop(cls, lab: Lab) -> None:
        root(lab, f"systemctl stop neighbour; rm {cls._conf} {cls._unit}; systemctl daemon-reload")
        cls.before = cls.files(lab)

    @classmethod
    def move_out(cls, lab: Lab) -> None:
        root(lab, "rm /var/lib/redis/neighbour.rdb")


@contextmanager
def watched_arguments() -> Iterator[set[str]]:
    """The command lines of all processes during the block, including those on the lab's hosts."""
    seen: set[str] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.update(read(path / "cmdline") for path in Path("/proc").glob("[0-9]*"))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def assert_nothing_left(lab: Lab, number: int) -> None:
    left = root(
        lab,
        "ls -d /etc/rlctl /var/lib/rlctl /run/rlctl /usr/lib/rlctl /etc/sysctl.d/*rlctl* /etc/tmpfiles.d/*rlctl* "
        "/etc/systemd/system/*rlctl* /etc/systemd/system/*.wants/*rlctl* /etc/systemd/system/*redis* "
        "/etc/systemd/system/*valkey* 2>/dev/null; getent passwd rlctl; getent group rlctl; pgrep -a 'redis|valkey'; "
        "nft list tables | grep rlctl; dpkg -l | grep -E '^i. +(redis|valkey)'; true",
        number,
    )
    assert left == ""


@pytest.fixture(scope="module")
def trixie(make_lab: Callable[..., Lab]) -> Lab:
    """One Debian 13 host."""
    return make_lab("trixie")


def test_valkey_on_debian_13_beside_redis_and_neither_takes_the_other_along(trixie: Lab, tmp_path: Path) -> None:
    shape = {"kind": "cluster", "cluster": {"shards": 3, "replicas": 0}}
    valkey = HandRun.create(trixie, tmp_path / "valkey", name="one", engine={"flavor": "valkey"}, **shape)
    address = trixie.hosts[0].address
    hosts = [{"address": address, "name": "h1", "base_port": 7100}]
    redis = HandRun.create(trixie, tmp_path / "redis", name="two", hosts=hosts, persistence={"mode": "none"}, **shape)
    for run, server in ((valkey, "valkey-server"), (redis, "redis-server")):
        run.must_play("place")
        run.start()
        host = inside(trixie)
        assert host.package(server).is_installed
        assert host.service(server).is_masked
        with run.admin("node-1") as admin:
            info = admin.info("server")
            assert (info.get("valkey_version") is not None) == (server == "valkey-server")
            assert (
                admin.execute_command("CLUSTER", "MYID")
                == run.launch_variables()["redis_node_launches"]["node-1"]["own_id"]
            )
    assert valkey.must_play("place").recap("h1")["changed"] == 0
    assert_stays_down_without_a_log(redis)
    assert_named_nodes_go(redis)
    redis.must_play("destroy")
    assert valkey.state("node-0") == "active"
    assert valkey.must_play("place").recap("h1")["changed"] == 0
    assert_another_fleet_that_comes_meanwhile_keeps_what_it_needs(valkey)
    valkey.must_play("destroy", redis_host_remove_packages=True)
    assert_nothing_left(trixie, 0)


def test_the_watcher_of_scripts_gets_what_it_needs_and_no_more(trixie: Lab, tmp_path: Path) -> None:
    """With a fake rlctl that reports what it can read."""
    run = HandRun.create(trixie, tmp_path, name="seen", kind="cluster", cluster={"shards": 3, "replicas": 0})
    secrets = tmp_path / "secrets.json"
    secrets.write_text('{"canary": "secret"}', encoding="utf-8")
    told = 'id -un; cat "$2" | head -1; wc -c <$RLCTL_SECRETS; echo "$RLCTL_HOME" "$3" "$4"; exec sleep inf'
    root(trixie, f"printf '%s\\n' '#!/bin/sh' '{told}' >/usr/local/bin/watching; chmod 755 /usr/local/bin/watching")
    inventory = json.dumps({"rlctl_watchers": {"hosts": {"h1": {}}}})
    (tmp_path / "watchers.yml").write_text(inventory, encoding="utf-8")
    given = {"rlctl_scripts_secrets": str(secrets), "rlctl_scripts_program": "/usr/local/bin/watching"}
    words = ["-i", str(tmp_path / "watchers.yml"), "--tags", "scripts"]
    predicted = run.must_play("site", *words, "--check", **given)
    assert predicted.changed() == run.must_play("site", *words, **given).changed()
    assert run.must_play("site", *words, **given).recap("h1")["changed"] == 0
    unit = "rlctl-seen-watch.service"
    holds(lambda: "scripts watch" in root(trixie, f"journalctl -o cat -u {unit}"), "it runs")
    assert "/var/lib/rlctl-seen-watch scripts watch" in root(trixie, f"journalctl -o cat -u {unit}")
    predicted = run.must_play("destroy", *words, "--check")
    assert predicted.changed() == run.must_play("destroy", *words).changed()
    assert run.must_play("destroy", *words).recap("h1")["changed"] == 0
    own = f"/etc/rlctl-watch /var/lib/rlctl-seen-watch /var/lib/private/rlctl-seen-watch /etc/systemd/system/{unit}"
    assert root(trixie, f"ls -d {own} 2>/dev/null; systemctl list-units --all --no-legend {unit}; true") == ""


def assert_stays_down_without_a_log(run: HandRun) -> None:
    """Only an order starts the node, and only once: not a crash, not systemctl, not a used token."""
    unit = run.unit("node-0")
    root(run.lab, f"kill -9 $(systemctl show -p MainPID --value {unit})")
    holds(lambda: run.state("node-0") == "inactive", "it stays down")
    root(run.lab, f"systemctl start {unit}; true")
    assert run.state("node-0") == "inactive"
    assert "would come back empty" in root(run.lab, f"journalctl -o cat -u {unit} -n 5")
    run.start("node-0")
    assert run.state("node-0") == "active"
    assert root(run.lab, f"ls /run/rlctl/{run.name}") == ""


def assert_another_fleet_that_comes_meanwhile_keeps_what_it_needs(run: HandRun) -> None:
    root(run.lab, "mkdir /var/lib/rlctl/newcomer")
    run.must_play("destroy")
    kept = "/etc/rlctl/.host/packages.json /usr/lib/rlctl/start-guard /var/lib/rlctl/newcomer"
    assert root(run.lab, f"ls -d {kept} | wc -l; getent passwd rlctl | wc -l").split() == ["3", "1"]
    assert inside(run.lab).package("valkey-server").is_installed
    root(run.lab, "rmdir /var/lib/rlctl/newcomer")


def assert_named_nodes_go(run: HandRun) -> None:
    run.must_play("destroy", rlctl_remove=["node-2"])
    assert run.state("node-2") == "inactive"
    assert run.state("node-1") == "active"
    assert root(run.lab, f"ls /var/lib/rlctl/{run.name} /etc/rlctl/{run.name} | grep node-2; true") == ""
