"""Checks of a machine, for tables of facts."""

from dataclasses import replace
from typing import Any

import pytest

from rlctl.doctor.host_checks import host_checks
from rlctl.doctor.model import Check, CheckSeverity
from rlctl.doctor.network_checks import ports_text
from rlctl.doctor.resource_checks import machines_without_memory, size_text
from rlctl.system.host_facts import UNLIMITED, HostFacts
from rlctl.topology.model import (
    HostEntry,
    Kind,
    LocalPlace,
    Memory,
    Persistence,
    PersistenceMode,
    TargetName,
    Topology,
)

GIB = 1024**3
MIB = 1024**2
FACTS = HostFacts(
    platform="linux",
    overcommit_memory=1,
    thp_mode="madvise",
    open_files_soft=65_536,
    open_files_hard=65_536,
    memory_total_bytes=8 * GIB,
    memory_available_bytes=6 * GIB,
    swap_total_bytes=0,
    swap_used_bytes=0,
    somaxconn=4_096,
    ephemeral_ports=(32_768, 60_999),
    reserved_ports=(),
    clock_synchronised=True,
    state_folder="/state",
    disk_total_bytes=100 * GIB,
    disk_free_bytes=50 * GIB,
    cpus=8,
)
CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.LOCAL)  # 6 data nodes x 256 MiB
SENTINEL = replace(CLUSTER, kind=Kind.SENTINEL)
DOCKER = replace(CLUSTER, target=TargetName.DOCKER)
HIGH_BUS = replace(CLUSTER, local=LocalPlace(base_port=30_000))
HIGH_PORTS = replace(CLUSTER, local=LocalPlace(base_port=32_764))
MACHINE_CHECKS = {
    "clock",
    "cpu",
    "disk",
    "ephemeral-bus-ports",
    "ephemeral-ports",
    "file-limit",
    "memory",
    "overcommit-memory",
    "swap-in-use",
    "swap-present",
    "tcp-backlog",
    "transparent-huge-pages",
}
SHAPE_CHECKS = {"eviction-policy", "persistence-restart", "placement", "encryption", "replicas"}

OK, WARNING, CRITICAL, UNKNOWN = CheckSeverity.OK, CheckSeverity.WARNING, CheckSeverity.CRITICAL, CheckSeverity.UNKNOWN


def check_of(name: str, topology: Topology, **changed: Any) -> Check:
    (check,) = [check for check in host_checks(topology, replace(FACTS, **changed)) if check.name == name]
    assert bool(check.fix) is (check.severity is not OK)
    assert check.evidence
    assert check.runbook is None
    return check


@pytest.mark.parametrize(
    ("name", "changed", "severity", "evidence"),
    [
        pytest.param("overcommit-memory", {}, OK, "is 1", id="overcommit on"),
        pytest.param("overcommit-memory", {"overcommit_memory": 0}, WARNING, "is 0: the fork", id="heuristic"),
        pytest.param("overcommit-memory", {"overcommit_memory": 2}, WARNING, "is 2: the fork", id="strict"),
        pytest.param("overcommit-memory", {"overcommit_memory": None}, UNKNOWN, "not be read", id="overcommit ?"),
        pytest.param("transparent-huge-pages", {}, OK, "madvise", id="thp madvise"),
        pytest.param("transparent-huge-pages", {"thp_mode": "never"}, OK, "never", id="thp never"),
        pytest.param("transparent-huge-pages", {"thp_mode": "always"}, WARNING, "always", id="thp always"),
        pytest.param("transparent-huge-pages", {"thp_mode": None}, UNKNOWN, "not be read", id="thp ?"),
        pytest.param("file-limit", {}, OK, "soft 65536, hard 65536; a node needs 10032", id="files"),
        pytest.param("file-limit", {"open_files_soft": 10_032}, OK, "soft 10032", id="files just enough"),
        pytest.param(
            "file-limit",
            {"open_files_soft": 1_024, "open_files_hard": UNLIMITED},
            OK,
            "hard unlimited; a node needs 10032 (maxclients 10000 + 32); the server raises",
            id="soft limit that the server raises",
        ),
        pytest.param(
            "file-limit",
            {"open_files_soft": 1_024, "open_files_hard": 4_096},
            WARNING,
            "lowers maxclients to 4064",
            id="hard limit too low",
        ),
        pytest.param("file-limit", {"open_files_hard": None}, UNKNOWN, "not be read", id="files ?"),
        pytest.param("clock", {}, OK, "is synchronised", id="clock"),
        pytest.param("clock", {"clock_synchronised": False}, WARNING, "the windows of limits shift", id="clock adrift"),
        pytest.param("clock", {"clock_synchronised": None}, UNKNOWN, "not be read", id="clock ?"),
        pytest.param("tcp-backlog", {}, OK, "somaxconn is 4096, tcp-backlog is 511", id="backlog"),
        pytest.param("tcp-backlog", {"somaxconn": 511}, OK, "is 511", id="backlog just enough"),
        pytest.param("tcp-backlog", {"somaxconn": 128}, WARNING, "limits the queue to 128", id="backlog cut"),
        pytest.param("tcp-backlog", {"somaxconn": None}, UNKNOWN, "not be read", id="backlog ?"),
        pytest.param("memory", {}, OK, "6 data nodes x 256 MiB = 1.5 GiB of 8 GiB, 6 GiB of it", id="memory"),
        pytest.param("memory", {"memory_available_bytes": GIB}, WARNING, "than is available", id="memory tight"),
        pytest.param("memory", {"memory_total_bytes": GIB}, CRITICAL, "do not fit", id="memory too small"),
        pytest.param("memory", {"memory_total_bytes": None}, UNKNOWN, "of an unknown amount", id="memory total ?"),
        pytest.param("memory", {"memory_available_bytes": None}, UNKNOWN, "8 GiB", id="memory available ?"),
        pytest.param(
            "memory",
            {"memory_total_bytes": GIB, "memory_available_bytes": None},
            CRITICAL,
            "do not fit",
            id="memory too small, whatever is available",
        ),
        pytest.param("swap-present", {}, OK, "no swap", id="no swap"),
        pytest.param("swap-present", {"swap_total_bytes": GIB}, OK, "1 GiB of swap", id="swap"),
        pytest.param("swap-present", {"swap_total_bytes": None}, UNKNOWN, "not be read", id="swap ?"),
        pytest.param("swap-in-use", {}, OK, "0 bytes of 0 bytes", id="no swap in use"),
        pytest.param("swap-in-use", {"swap_used_bytes": 64 * MIB}, OK, "64 MiB", id="a little swap in use"),
        pytest.param(
            "swap-in-use",
            {"swap_total_bytes": GIB, "swap_used_bytes": 65 * MIB},
            WARNING,
            "65 MiB of 1 GiB",
            id="swap in use",
        ),
        pytest.param("swap-in-use", {"swap_used_bytes": None}, UNKNOWN, "not be read", id="swap in use ?"),
        pytest.param("disk", {}, OK, "50 GiB free of 100 GiB; 6 data nodes x 256 MiB x 2 (aof file and", id="disk"),
        pytest.param(
            "disk",
            {"disk_total_bytes": 4 * GIB, "disk_free_bytes": 2 * GIB},
            WARNING,
            "= 3 GiB",
            id="disk short",
        ),
        pytest.param("disk", {"disk_free_bytes": 4 * GIB}, CRITICAL, "less than 5% free", id="disk full"),
        pytest.param("disk", {"disk_free_bytes": None}, UNKNOWN, "not be read", id="disk ?"),
        pytest.param("cpu", {}, OK, "6 nodes on 8 CPUs", id="cpu"),
        pytest.param("cpu", {"cpus": 2}, OK, "on 2 CPUs; they share", id="cpu shared"),
        pytest.param("cpu", {"cpus": None}, UNKNOWN, "an unknown number", id="cpu ?"),
    ],
)
def test_machine(name: str, changed: dict[str, Any], severity: CheckSeverity, evidence: str) -> None:
    check = check_of(name, CLUSTER, **changed)

    assert check.severity is severity
    assert evidence in check.evidence


@pytest.mark.parametrize(
    ("name", "topology", "changed", "severity", "evidence"),
    [
        pytest.param("ephemeral-ports", CLUSTER, {}, OK, "ports 7000-7005, ephemeral", id="ports clear"),
        pytest.param("ephemeral-ports", SENTINEL, {}, OK, "7000-7002, 8000-8002", id="sentinels too"),
        pytest.param("ephemeral-ports", HIGH_PORTS, {}, WARNING, "may take 32768-32769", id="ports inside"),
        pytest.param(
            "ephemeral-ports",
            HIGH_PORTS,
            {"reserved_ports": ((32_768, 32_800),)},
            OK,
            "32768-32769 are in the range, but reserved",
            id="ports reserved",
        ),
        pytest.param(
            "ephemeral-ports",
            HIGH_PORTS,
            {"reserved_ports": None},
            WARNING,
            "may take",
            id="reserved ports ?",
        ),
        pytest.param("ephemeral-ports", CLUSTER, {"ephemeral_ports": None}, UNKNOWN, "7000-7005", id="range ?"),
        pytest.param("ephemeral-bus-ports", CLUSTER, {}, OK, "ports 17000-17005", id="bus clear"),
        pytest.param("ephemeral-bus-ports", HIGH_BUS, {}, WARNING, "may take 40000-40005", id="bus inside"),
        pytest.param("ephemeral-bus-ports", SENTINEL, {}, OK, "no cluster bus", id="no bus"),
        pytest.param(
            "ephemeral-bus-ports",
            CLUSTER,
            {"ephemeral_ports": None},
            UNKNOWN,
            "17000-17005",
            id="bus range ?",
        ),
    ],
)
def test_ports(name: str, topology: Topology, changed: dict[str, Any], severity: CheckSeverity, evidence: str) -> None:
    check = check_of(name, topology, **changed)

    assert check.severity is severity
    assert evidence in check.evidence


def test_port_fix_keeps_what_is_reserved_and_serves_both_checks() -> None:
    facts = replace(FACTS, reserved_ports=((9_100, 9_100),))
    fixes = {check.name: check.fix for check in host_checks(HIGH_PORTS, facts) if "ephemeral" in check.name}

    assert fixes["ephemeral-bus-ports"] == fixes["ephemeral-ports"]
    assert fixes["ephemeral-ports"].endswith("ip_local_reserved_ports=9100,32768-32769,42764-42769")


def test_directives_of_the_topology_count() -> None:
    topology = replace(CLUSTER, redis=(("maxclients", "70000"), ("tcp-backlog", "8192")))

    assert "needs 70032" in check_of("file-limit", topology).evidence
    assert check_of("tcp-backlog", topology).severity is WARNING


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("file-limit", "each node gets the 10032 that it needs"),
        ("tcp-backlog", "511, in each container"),
        ("ephemeral-bus-ports", "each container has its own ports"),
    ],
)
def test_what_a_container_has_of_its_own_is_not_judged_by_the_machine(name: str, evidence: str) -> None:
    check = check_of(name, DOCKER, somaxconn=1, open_files_hard=1, ephemeral_ports=(1024, 65_535))
    assert check.severity is OK
    assert evidence in check.evidence


def test_disk_without_persistence_needs_no_room_but_its_floor() -> None:
    topology = replace(CLUSTER, persistence=Persistence(mode=PersistenceMode.NONE))

    assert check_of("disk", topology, disk_total_bytes=4 * GIB, disk_free_bytes=GIB).severity is OK
    assert check_of("disk", topology, disk_free_bytes=GIB).severity is CRITICAL


def test_no_maxmemory_is_a_warning() -> None:
    assert check_of("memory", replace(CLUSTER, memory=Memory(maxmemory_bytes=0))).severity is WARNING


def test_every_check_speaks_when_all_is_well() -> None:
    checks = host_checks(CLUSTER, FACTS)

    assert {check.name for check in checks} == MACHINE_CHECKS | SHAPE_CHECKS
    assert {check.severity for check in checks} == {OK}
    assert [check.name for check in checks] == sorted(check.name for check in checks)


@pytest.mark.parametrize("platform", [None, "linux", "darwin"])
def test_without_any_fact_nothing_about_the_machine_passes(platform: str | None) -> None:
    checks = host_checks(CLUSTER, HostFacts(platform=platform))  # type: ignore[arg-type]

    assert {check.name for check in checks if check.severity is UNKNOWN} == MACHINE_CHECKS
    assert all(check.fix for check in checks if check.severity is UNKNOWN)


def test_macos_is_not_told_to_look_for_linux_settings() -> None:
    fixes = {check.name: check.fix for check in host_checks(CLUSTER, HostFacts(platform="darwin"))}

    assert "Linux only" in fixes["overcommit-memory"]
    assert "net.inet.ip.portrange" in fixes["ephemeral-ports"]


def test_hosts_are_not_judged_by_the_operators_machine() -> None:
    hosts = tuple(HostEntry(address=f"10.0.0.{number}") for number in (3, 2, 1))
    topology = replace(CLUSTER, target=TargetName.HOSTS, hosts=hosts)
    checks = host_checks(topology, FACTS, {"10.0.0.2": "host 10.0.0.2 cannot be reached"})

    assert {check.name for check in checks} == SHAPE_CHECKS | {"host-facts"}
    assert (checks[0].severity, checks[0].subject) == (CRITICAL, "host 10.0.0.2")


def sized(topology: Topology, mib: int) -> Topology:
    return replace(topology, memory=Memory(maxmemory_bytes=mib * MIB))


@pytest.mark.parametrize(
    ("available_bytes", "expected"),
    [
        pytest.param(6 * 512 * MIB, [], id="just enough"),
        pytest.param(
            6 * 512 * MIB - 1,
            ["this machine: 6 data nodes x 512 MiB more = 3 GiB; 3 GiB is available"],
            id="a byte short",
        ),
        pytest.param(None, [], id="unknown"),
    ],
)
def test_room_to_grow_here(available_bytes: int | None, expected: list[str]) -> None:
    facts = replace(FACTS, memory_available_bytes=available_bytes)
    assert list(machines_without_memory(sized(CLUSTER, 512), sized(CLUSTER, 1024), {None: facts})) == expected


def test_room_to_grow_is_counted_by_host() -> None:
    hosts = tuple(HostEntry(address=f"10.0.0.{number}", name=f"h{number}") for number in (1, 2, 3))
    topology = replace(CLUSTER, target=TargetName.HOSTS, hosts=hosts)
    machines = {"h1": FACTS, "h2": replace(FACTS, memory_available_bytes=GIB), "h3": FACTS}
    found = list(machines_without_memory(sized(topology, 512), sized(topology, 512 + 1024), machines))
    assert found == ["host h2: 2 data nodes x 1 GiB more = 2 GiB; 1 GiB is available"]


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        pytest.param(0, "0 bytes", id="zero"),
        pytest.param(1_536, "1.5 KiB", id="fraction"),
        pytest.param(252 * GIB, "252 GiB", id="whole"),
        pytest.param(3 * 1024 * GIB, "3 TiB", id="largest unit"),
    ],
)
def test_size_text(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_ports_text_joins_neighbours() -> None:
    assert ports_text([8_000, 7_002, 7_001, 7_000, 7_000]) == "7000-7002, 8000"
