from dataclasses import replace

import pytest

from rlctl.doctor.model import CheckSeverity
from rlctl.doctor.remote_checks import remote_checks
from rlctl.system.host_facts import HostFacts
from rlctl.topology.model import HostEntry, Kind, Memory, Persistence, PersistenceMode, TargetName, Topology

GIB = 1024**3
TOPOLOGY = Topology(
    name="limiter",
    kind=Kind.CLUSTER,
    target=TargetName.HOSTS,
    hosts=tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3)),
    memory=Memory(maxmemory_bytes=GIB),
)
FACTS = HostFacts(
    platform="linux",
    overcommit_memory=1,
    thp_mode="madvise",
    memory_total_bytes=8 * GIB,
    somaxconn=4_096,
    ephemeral_ports=(32_768, 60_999),
    reserved_ports=(),
    clock_synchronised=True,
    clock_offset_s=0.0,
    disk_total_bytes=100 * GIB,
    disk_free_bytes=50 * GIB,
)
OK, WARNING, CRITICAL, UNKNOWN = CheckSeverity.OK, CheckSeverity.WARNING, CheckSeverity.CRITICAL, CheckSeverity.UNKNOWN


def test_a_host_that_is_fit_passes_and_is_named() -> None:
    checks = list(remote_checks(TOPOLOGY, {"h1": FACTS, "h2": FACTS}))
    assert {check.severity for check in checks} == {OK}
    assert {check.subject for check in checks} == {"host h1", "host h2"}
    assert "file-limit" not in {check.name for check in checks}


@pytest.mark.parametrize(
    ("facts", "name", "severity", "evidence"),
    [
        pytest.param({"memory_total_bytes": 8 * GIB}, "memory", OK, "2 data nodes x 1 GiB of 8 GiB", id="room"),
        pytest.param({"memory_total_bytes": 3 * GIB}, "memory", WARNING, "copy-on-write", id="no room to save"),
        pytest.param({"memory_total_bytes": GIB}, "memory", CRITICAL, "do not fit", id="no room"),
        pytest.param({"memory_total_bytes": None}, "memory", UNKNOWN, "could not be read", id="memory unread"),
        pytest.param({"disk_free_bytes": 3 * GIB}, "disk", WARNING, "may take 4 GiB", id="little disk"),
        pytest.param({"disk_free_bytes": None}, "disk", UNKNOWN, "could not be read", id="disk unread"),
        pytest.param({"clock_offset_s": 2.5}, "clock-offset", WARNING, "2.5 s ahead of", id="clock ahead"),
        pytest.param({"clock_offset_s": -60.0}, "clock-offset", WARNING, "60.0 s behind", id="clock behind"),
        pytest.param({"clock_offset_s": None}, "clock-offset", UNKNOWN, "could not be read", id="clock unread"),
        pytest.param({"overcommit_memory": 0}, "overcommit-memory", WARNING, "is 0", id="kernel"),
    ],
)
def test_each_fact_is_judged(facts: dict[str, object], name: str, severity: CheckSeverity, evidence: str) -> None:
    found = remote_checks(TOPOLOGY, {"h1": replace(FACTS, **facts)})  # type: ignore[arg-type]
    (check,) = [check for check in found if check.name == name]
    assert check.severity is severity
    assert evidence in check.evidence
    assert bool(check.fix) is (severity is not OK)


def test_without_persistence_no_disk_is_needed() -> None:
    topology = replace(TOPOLOGY, persistence=Persistence(mode=PersistenceMode.NONE))
    (check,) = [c for c in remote_checks(topology, {"h1": replace(FACTS, disk_free_bytes=1)}) if c.name == "disk"]
    assert check.severity is OK


def test_a_host_that_cannot_be_read_is_critical_for_its_reason() -> None:
    (check,) = remote_checks(TOPOLOGY, {"h1": "host h1: sudo refused"})
    assert (check.severity, check.evidence) == (CRITICAL, "host h1: sudo refused")
