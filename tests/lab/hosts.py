"""Hosts that answer ssh: systemd in containers, on a network of their own, with keys that only this run knows."""

import ipaddress
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.lab.images import HOSTS
from tests.lab.shell import PATIENCE_S, LabError, run, succeeds, timed, wait_for

USER = "ops"
LABEL = "rlctl.lab"
# Where the run keeps its keys: tells whose a host is, should it stay.
FOLDER_LABEL = "rlctl.lab.folder"
_POOL = ipaddress.ip_network("172.16.0.0/12")
# Fleets on containers have networks of their own here.
_FLEETS = ipaddress.ip_network("172.31.0.0/16")
_SUBNET_BITS = 24
_FIRST_HOST = 11
_ATTEMPTS = 64
_FLAGS = (
    *("--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--security-opt", "seccomp=unconfined"),
    *("--cgroupns", "private", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),
    *("--stop-signal", "SIGRTMIN+3", "--env", "container=docker"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """One host; `container` is its name for docker, `address` its name for ssh."""

    name: str
    container: str
    address: str
    release: str

    def exec(self, *argv: str, stdin: str | None = None) -> str:
        """Run a program in it as root, without ssh."""
        return run("docker", "exec", "--interactive", self.container, *argv, stdin=stdin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """Hosts of one run, and what a client of theirs needs."""

    run: str
    network: str
    subnet: str
    folder: Path
    hosts: tuple[LabHost, ...]

    @property
    def key(self) -> Path:
        """The private key that lets the user in."""
        return self.folder / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The hosts' real keys."""
        return self.folder / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`; ssh itself reads no config of a HOME that is set in the environment."""
        return self.folder / "ssh_config"

    @property
    def bin(self) -> Path:
        """Put this folder first on PATH, and ssh, scp and sftp of every program know the hosts."""
        return self.folder / "bin"

    def env(self) -> dict[str, str]:
        """The environment in which every program's ssh knows the hosts."""
        return {**os.environ, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def ssh(self, host: LabHost, command: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a host as the unprivileged user."""
        argv = ["ssh", "-F", str(self.ssh_config), host.address, command]
        return subprocess.run(argv, input=stdin or "", capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@contextmanager
def start_lab(releases: Sequence[str]) -> Iterator[Lab]:
    """Hosts of these Debian releases, until the block ends; their images must be there."""
    mark = secrets.token_hex(4)
    folder = Path(tempfile.mkdtemp(prefix="rlctl-lab-"))
    try:
        with timed(f"{len(releases)} hosts"):
            lab = _start(mark, folder, releases)
        yield lab
    finally:
        _remove(mark)
        shutil.rmtree(folder)


def _start(mark: str, folder: Path, releases: Sequence[str]) -> Lab:
    name = f"rlctl-lab-{mark}"
    subnet = _make_network(name, _labels(mark, folder))
    hosts = tuple(
        LabHost(name=f"host-{n}", container=f"{name}-host-{n}", address=str(subnet[_FIRST_HOST + n]), release=release)
        for n, release in enumerate(releases)
    )
    lab = Lab(run=mark, network=name, subnet=str(subnet), folder=folder, hosts=hosts)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", lab.key)
    with ThreadPoolExecutor() as pool:
        keys = list(pool.map(lambda host: _start_host(lab, host), hosts))
    lab.known_hosts.write_text("".join(keys), encoding="ascii")
    _write_ssh_config(lab)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda host: _wait_for_ssh(lab, host), hosts))
    return lab


def _labels(mark: str, folder: Path) -> Sequence[str]:
    return ("--label", f"{LABEL}={mark}", "--label", f"{FOLDER_LABEL}={folder}")


def _start_host(lab: Lab, host: LabHost) -> str:
    """Start it, let the user in, and return its line of known_hosts."""
    run(
        *("docker", "run", "--detach", "--name", host.container, "--hostname", host.name),
        *_labels(lab.run, lab.folder),
        *("--network", lab.network, "--ip", host.address, *_FLAGS),
        HOSTS[host.release].pinned,
    )
    wait_for(lambda: _is_running(host), f"systemd of {host.container} is running")
    public = lab.key.with_suffix(".pub").read_text(encoding="ascii")
    host.exec(
        "install", "-m", "600", "-o", USER, "-g", USER, "/dev/stdin", f"/home/{USER}/.ssh/authorized_keys", stdin=public
    )
    kind, key = host.exec("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
    return f"{host.address} {kind} {key}\n"


def _is_running(host: LabHost) -> bool:
    """Whether it came up whole; a host that ended or came up with failed units never will."""
    try:
        return host.exec("systemctl", "is-system-running", "--wait").strip() == "running"
    except LabError as failure:
        if "degraded" in str(failure):
            raise LabError(f"{host.container} has failed units:\n{host.exec('systemctl', '--failed')}") from failure
        if not run("docker", "ps", "--quiet", "--filter", f"name=^{host.container}$"):
            raise LabError(f"{host.container} ended:\n{run('docker', 'logs', host.container)}") from failure
        return False


def _wait_for_ssh(lab: Lab, host: LabHost) -> None:
    wait_for(lambda: succeeds("ssh", "-F", lab.ssh_config, host.address, "true"), f"ssh to {host.address} answers")


def _write_ssh_config(lab: Lab) -> None:
    options = {
        "User": USER,
        "IdentityFile": lab.key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": lab.known_hosts,
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": 10,
        "LogLevel": "ERROR",
    }
    lines = [
        f"Host {' '.join(host.address for host in lab.hosts)}",
        *(f"    {name} {value}" for name, value in options.items()),
    ]
    lab.ssh_config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lab.bin.mkdir()
    for program in ("ssh", "scp", "sftp"):
        shim = lab.bin / program
        shim.write_text(
            f'#!/bin/sh\nexec {shutil.which(program)} -F {shlex.quote(str(lab.ssh_config))} "$@"\n', encoding="utf-8"
        )
        shim.chmod(0o755)


def _make_network(name: str, labels: Sequence[str]) -> ipaddress.IPv4Network:
    """A network on a subnet that nothing here uses; the engine refuses one that another network has."""
    refusal: LabError | None = None
    for subnet in _free_subnets():
        try:
            run("docker", "network", "create", "--subnet", str(subnet), *labels, name)
        except LabError as failure:
            refusal = failure
        else:
            return subnet
    raise LabError(f"no free subnet in {_POOL}") from refusal


def _free_subnets() -> Iterator[ipaddress.IPv4Network]:
    taken = [
        ipaddress.ip_network(f"{address.address}/{address.netmask}", strict=False)
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.netmask and "." in address.address
    ]
    for _ in range(_ATTEMPTS):
        first = int(_POOL.network_address) + (
            secrets.randbelow(1 << (_SUBNET_BITS - _POOL.prefixlen)) << (32 - _SUBNET_BITS)
        )
        subnet = ipaddress.IPv4Network((first, _SUBNET_BITS))
        if not any(subnet.overlaps(other) for other in (_FLEETS, *taken)):
            yield subnet


def _remove(mark: str) -> None:
    """Containers with their anonymous volumes, then the network; exactly those of this run."""
    label = f"label={LABEL}={mark}"
    containers = run("docker", "ps", "--all", "--quiet", "--filter", label).split()
    if containers:
        run("docker", "rm", "--force", "--volumes", *containers)
    networks = run("docker", "network", "ls", "--quiet", "--filter", label).split()
    if networks:
        run("docker", "network", "rm", *networks)
    sys.stderr.write(f"lab: removed {len(containers)} hosts\n")
