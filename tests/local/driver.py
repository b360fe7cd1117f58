"""Fleets of target local, and their processes."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.driver import PATIENCE_S, POLL_S, Fleet, Ran, wait_for
from tests.local.ports import next_base_port

__all__ = ["PATIENCE_S", "POLL_S", "Ran", "wait_for"]
SERVERS = {"redis-server", "redis-sentinel", "valkey-server", "valkey-sentinel"}


@dataclass(slots=True, kw_only=True)
class LocalFleet(Fleet):
    """A fleet of target local."""

    def pid(self, name: str) -> int:
        """The pid that rlctl recorded for a node."""
        return json.loads((self.node_folder(name) / "process.json").read_text(encoding="utf-8"))["pid"]

    def kill(self, *names: str) -> None:
        """SIGKILL all these nodes, then wait for their end."""
        pids = [self.pid(name) for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            wait_for(lambda pid=pid: is_gone(pid), f"the end of process {pid}")

    def processes(self) -> list[psutil.Process]:
        """The servers whose working folder is below this fleet's folder."""
        return list(servers_below(self.folder))

    def end_all(self) -> None:
        """End all servers of the fleet by pid, in whatever state the test left them."""
        left = self.processes()
        for process in left:
            process.kill()
        # A zombie counts as ended: the test does not control when it is reaped.
        wait_for(lambda: all(is_gone(process.pid) for process in left), "the end of all servers")


def is_gone(pid: int) -> bool:
    """Whether the process has ended. A zombie counts as ended once its threads have closed its ports."""
    try:
        process = psutil.Process(pid)
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def servers_below(folder: Path) -> Iterator[psutil.Process]:
    """Live servers whose working folder is below this one."""
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
    return _placed(document | changes)


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
    return _placed(document | changes)


def _placed(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "local": {"address": "127.0.0.1", "base_port": next_base_port()}}
