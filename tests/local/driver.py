"""Drives the real rlctl binary on real servers, and knows what it started."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml
from redis import Redis

from rlctl.system.ports import free_base_port

# A busy machine is slow, not broken: every wait in a test may take this long.
PATIENCE_S = 120.0
POLL_S = 0.05
# What an operator may have set must not reach the fleets of a test.
OPERATORS = {"RLCTL_TOPOLOGY", "RLCTL_SECRETS", "RLCTL_REDIS_SERVER", "NO_COLOR"}
SERVERS = {"redis-server", "redis-sentinel", "valkey-server", "valkey-sentinel"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One finished command."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The result on stdout."""
        return json.loads(self.out)

    def error(self) -> dict[str, str]:
        """The error object on stderr, the last line there."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


@dataclass(slots=True, kw_only=True)
class LocalFleet:
    """A topology file in a folder, an RLCTL_HOME beside it, and the binary that works on them."""

    folder: Path
    document: dict[str, Any]
    extra_env: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.document["name"]

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def file(self) -> Path:
        return self.folder / "topology.yaml"

    @property
    def base_port(self) -> int:
        return self.document["local"]["base_port"]

    def node_folder(self, name: str) -> Path:
        return self.home / "fleets" / self.name / "nodes" / name

    def write(self) -> None:
        """Write the topology file again after `document` was changed."""
        self.file.write_text(yaml.safe_dump(self.document), encoding="utf-8")

    def env(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if name not in OPERATORS}
        return {**own, "RLCTL_HOME": str(self.home), **self.extra_env}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rlctl", "-f", str(self.file), *words]

    def run(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """Run a command on this fleet to its end; a code other than `expect` fails the test with what it said."""
        return self.run_bare("-f", str(self.file), *words, expect=expect, stdin=stdin, **more_env)

    def run_bare(self, *words: str, expect: int | None = 0, stdin: str | None = None, **more_env: str) -> Ran:
        """The same without naming the topology file."""
        done = subprocess.run(
            [sys.executable, "-m", "rlctl", *words],
            cwd=self.folder,
            env=self.env() | more_env,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S * 2,
            check=False,
        )
        ran = Ran(code=done.returncode, out=done.stdout, err=done.stderr)
        if expect is not None:
            assert ran.code == expect, f"rlctl {' '.join(words)} ended with {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        """Start a command and leave it running; the test ends it by its pid."""
        return subprocess.Popen(
            self.argv(*words),
            cwd=self.folder,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def deploy(self, *words: str, expect: int | None = 0) -> Ran:
        return self.run("deploy", "--yes", "-o", "json", *words, expect=expect)

    def status(self, expect: int | None = 0) -> dict[str, Any]:
        return self.run("status", "-o", "json", expect=expect).json()

    def access(self, who: str = "admin") -> dict[str, Any]:
        """What `rlctl env` prints."""
        return self.run("env", "--as", who, "-o", "json").json()

    def connect(self, name: str, who: str = "admin", access: dict[str, Any] | None = None) -> Redis:
        """A plain client of one node, with the credentials that `rlctl env` prints, or printed before."""
        access = access or self.access(who)
        kind, _, index = name.partition("-")
        port = self.base_port + int(index) + (1000 if kind == "sentinel" else 0)
        options: dict[str, Any] = {"ssl": True, "ssl_ca_certs": access["ca"]} if access["tls"] else {}
        return Redis(
            host=access["host"],
            port=port,
            username=access["username"],
            password=access["password"],
            decode_responses=True,
            **options,
        )

    def pid(self, name: str) -> int:
        """The pid that rlctl recorded for a node."""
        return json.loads((self.node_folder(name) / "process.json").read_text(encoding="utf-8"))["pid"]

    def kill(self, *names: str) -> None:
        """SIGKILL these nodes, all before any is waited for."""
        pids = [self.pid(name) for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            wait_for(lambda pid=pid: is_gone(pid), f"the end of process {pid}")

    def processes(self) -> list[psutil.Process]:
        """The servers that work below this fleet's folder, found by their working folder."""
        return list(servers_below(self.folder))

    def end_all(self) -> None:
        """End what is still there, by pid, whatever state the test left it in."""
        left = self.processes()
        for process in left:
            process.kill()
        # A zombie is gone: who reaps it, and when, is not ours.
        wait_for(lambda: all(is_gone(process.pid) for process in left), "the end of all servers")


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so after {timeout_s:g} s: {what}"
        time.sleep(POLL_S)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a zombie has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def servers_below(folder: Path) -> Iterator[psutil.Process]:
    """Live servers whose working folder lies below this one."""
    inside = folder.resolve()
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] in SERVERS and Path(process.cwd()).is_relative_to(inside):
                yield process
        except (psutil.Error, OSError):
            continue


def cluster_document(**changes: object) -> dict[str, Any]:
    """A 3+1 cluster on free ports with short timers."""
    document: dict[str, Any] = {
        "version": 1,
        "name": "limiter",
        "kind": "cluster",
        "target": "local",
        "cluster": {"shards": 3, "replicas": 1, "node_timeout": "1s"},
        "memory": {"maxmemory": "64mb"},
    }
    return _placed(document | changes, count=12)


def sentinel_document(**changes: object) -> dict[str, Any]:
    """One primary, two replicas, three sentinels on free ports with short timers."""
    document: dict[str, Any] = {
        "version": 1,
        "name": "limiter",
        "kind": "sentinel",
        "target": "local",
        "sentinel": {"replicas": 2, "sentinels": 3, "quorum": 2, "down_after": "2s", "failover_timeout": "5s"},
        "memory": {"maxmemory": "64mb"},
    }
    return _placed(document | changes, count=12)


def _placed(document: dict[str, Any], count: int) -> dict[str, Any]:
    return {**document, "local": {"address": "127.0.0.1", "base_port": free_base_port(count)}}
