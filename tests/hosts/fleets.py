"""Run the real rlctl on hosts of the lab, as an operator does."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.lab.hosts import Lab, LabHost
from tests.lab.shell import run
from tests.local.driver import LocalFleet

# group_vars beside the topology file, as an operator writes them.
GROUP_VARS = {"redis_host_open_files": 40_000}
SHARED = {
    "cluster": {"kind": "cluster", "cluster": {"shards": 3, "replicas": 1, "node_timeout": "2s"}},
    "sentinel": {
        "kind": "sentinel",
        "sentinel": {"replicas": 2, "sentinels": 3, "quorum": 2, "down_after": "2s", "failover_timeout": "6s"},
    },
}


@dataclass(slots=True, kw_only=True)
class HostsFleet(LocalFleet):
    """A topology on the hosts of a lab."""

    lab: Lab

    @classmethod
    def create(cls, lab: Lab, folder: Path, kind: str, **changes: Any) -> "HostsFleet":
        """A topology on all hosts, each in its own zone."""
        folder.mkdir(parents=True)
        hosts = [
            {"address": host.address, "name": f"h{number}", "zone": f"z{number}"}
            for number, host in enumerate(lab.hosts, start=1)
        ]
        whole = {"version": 1, "name": "limiter", "target": "hosts", "hosts": hosts, "memory": {"maxmemory": "64mb"}}
        made = cls(
            folder=folder, document=whole | SHARED[kind] | changes, lab=lab, extra_env={"PATH": path_of(lab.bin)}
        )
        made.write()
        (folder / "group_vars").mkdir()
        (folder / "group_vars" / "rlctl_hosts.yml").write_text(yaml.safe_dump(GROUP_VARS), encoding="utf-8")
        return made

    def host(self, name: str) -> LabHost:
        """The lab's machine behind h1, h2, ..."""
        return self.lab.hosts[int(name.removeprefix("h")) - 1]

    def of_node(self, name: str) -> LabHost:
        """The machine that runs a node."""
        document = json.loads(self.run("inventory", "--list").out)
        own = "sentinel_instances" if name.startswith("sentinel") else "redis_node_instances"
        hosts = document["_meta"]["hostvars"].items()
        return self.host(next(host for host, known in hosts if name in {one["name"] for one in known[own]}))

    def nodes_of(self, *hosts: str) -> set[str]:
        """The nodes on these hosts."""
        addresses = {self.host(host).address for host in hosts}
        return {node["name"] for node in self.status()["nodes"] if node["host"] in addresses}

    def unit(self, name: str) -> str:
        """Its systemd unit."""
        return f"rlctl-{self.name}{'-sentinel' if name.startswith('sentinel') else ''}@{name}.service"

    def stop(self, name: str) -> None:
        """Run systemctl for the node's unit."""
        self.of_node(name).exec("systemctl", "stop", self.unit(name))

    def deployed(self) -> dict[str, Any]:
        """The report of a deploy that must succeed."""
        return self.deploy().json()

    def is_in_order(self) -> bool:
        """Whether a dry run plans no steps. Any exit code but 0 and 10 fails the test."""
        code = self.run("deploy", "--dry-run", expect=None).code
        assert code in {0, 10}
        return code == 0

    def left(self) -> str:
        """Files and units of rlctl on the hosts, except packages and the record of them, which `destroy` keeps."""
        script = (
            "find /etc/rlctl -mindepth 1 ! -path /etc/rlctl/.host ! -path /etc/rlctl/.host/packages.json 2>/dev/null; "
            "ls -d /etc/rlctl-* /var/lib/rlctl* /run/rlctl* /usr/lib/rlctl* /etc/systemd/system/*rlctl* 2>/dev/null; "
            "pgrep -a redis; nft list tables | grep rlctl; getent passwd rlctl; ls /etc/sysctl.d | grep rlctl; true"
        )
        return "".join(host.exec("sh", "-c", script) for host in self.lab.hosts)


def path_of(first: Path) -> str:
    """PATH with another ssh first, then the rlctl and Ansible under test."""
    return os.pathsep.join([str(first), str(Path(sys.executable).parent), os.environ["PATH"]])


@contextmanager
def without_sudo(host: LabHost) -> Iterator[None]:
    """Let the ssh user log in, but refuse sudo."""
    host.exec("sed", "-i", "s/NOPASSWD: //", "/etc/sudoers.d/ops")
    try:
        yield
    finally:
        host.exec("sed", "-i", "s/) ALL/) NOPASSWD: ALL/", "/etc/sudoers.d/ops")


@contextmanager
def with_hanging_ssh(host: LabHost) -> Iterator[None]:
    """SIGSTOP every process of sshd: the kernel accepts connections, and no process answers them."""
    host.exec("pkill", "-STOP", "-x", "sshd")
    try:
        yield
    finally:
        host.exec("pkill", "-CONT", "-x", "sshd")


def power(host: LabHost, *, on: bool) -> None:
    """Turn a machine off without a shutdown, or turn it on."""
    run("docker", "start" if on else "kill", host.container)
