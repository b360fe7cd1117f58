"""What the hosts' servers refuse is part of what a look at the hosts tells, and no problem of the hosts."""

from pathlib import Path
from typing import Any

import pytest

from rlctl.errors import InvalidFile
from rlctl.execute.directives import refuse
from rlctl.secrets import generate
from rlctl.state.home import Home
from rlctl.system.clock import SystemClock
from rlctl.system.playbook_events import PlaybookRun, TaskResult
from rlctl.targets.base import NO_PROGRESS_LISTENER
from rlctl.targets.hosts.target import HostsTarget
from rlctl.targets.trial import RefusedDirective
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology

HOSTS = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3))
TOPOLOGY = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.HOSTS, hosts=HOSTS, redis=(("hz", "fast"),))
TASK = "Try the directives of the topology's section redis"


class Playbooks:
    """A check run in which two hosts refuse a directive, and one lacks something."""

    def run(self, _name: str, _hosts: object, *, check: bool) -> PlaybookRun:
        assert check
        tried = (
            TaskResult(host=host, task=TASK, status="failed", message="hz: no", refused={"hz": "no"})
            for host in ("h1", "h2")
        )
        placed = TaskResult(host="h3", task="Place", status="changed")
        return PlaybookRun(results=(*tried, placed), failures={"h1": 1, "h2": 1, "h3": 0})


def target(tmp_path: Path) -> HostsTarget:
    made = HostsTarget(TOPOLOGY, generate("limiter", None), Home(tmp_path), (), SystemClock(), NO_PROGRESS_LISTENER)
    playbooks: Any = Playbooks()
    made._playbooks = playbooks
    return made


def test_a_refusal_is_told_by_host(tmp_path: Path) -> None:
    found = target(tmp_path).drift()
    assert found["h1"].refused == (RefusedDirective(server="host h1", directive="hz", error="no"),)
    assert (found["h1"].problem, found["h3"].refused, found["h3"].changes) == (None, (), ("Place",))
    assert target(tmp_path).refused_directives() == ()


def test_what_hosts_refuse_alike_is_told_once(tmp_path: Path) -> None:
    drift = target(tmp_path).drift()
    with pytest.raises(InvalidFile) as caught:
        refuse(TOPOLOGY, [one for found in drift.values() for one in found.refused])
    assert caught.value.message == "redis.hz: host h1, host h2 do not start with `hz fast`: no"


def test_a_refusal_without_a_name_is_of_the_whole_section() -> None:
    with pytest.raises(InvalidFile, match="redis: s does not start with these directives: out of memory"):
        refuse(TOPOLOGY, [RefusedDirective(server="s", directive=None, error="out of memory")])
    refuse(TOPOLOGY, [])
