"""Checks of a fleet: ports, findings, memory, the bus, file modes and certificates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rlctl.doctor.fleet_checks import FileFacts, fleet_checks
from rlctl.doctor.model import Check, CheckSeverity
from rlctl.observe.model import Observed, OnDisk, Presence
from rlctl.render.text import Directive
from rlctl.topology.model import HostEntry, LocalPlace, Security, TargetName, Topology
from tests.unit.fleets import changed, cluster, desired_of, fresh, healthy, killed, name, watched

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
OK, WARNING, CRITICAL, UNKNOWN = CheckSeverity.OK, CheckSeverity.WARNING, CheckSeverity.CRITICAL, CheckSeverity.UNKNOWN


def checks(topology: Topology, state: Observed | None = None, files: FileFacts | None = None) -> tuple[Check, ...]:
    return fleet_checks(desired_of(topology), state or healthy(topology), files or FileFacts(), NOW)


def check_of(name: str, found: tuple[Check, ...], subject: str = "limiter") -> Check:
    (check,) = [check for check in found if check.name == name and check.subject == subject]
    assert bool(check.fix) is (check.severity is not OK)
    return check


@pytest.mark.parametrize("topology", [cluster(), watched()], ids=["cluster", "sentinel"])
def test_a_healthy_fleet_has_nothing_to_fix(topology: Topology) -> None:
    found = checks(topology)
    assert {check.severity for check in found} == {OK}
    names = {check.name for check in found}
    assert names - {"bus-authentication"} == {"ports", "fleet", "memory-used", "maxclients-lowered", "file-modes"}
    assert ("bus-authentication" in names) is (topology == cluster())
    assert check_of("fleet", found).evidence == "all 6 nodes match the topology"


def test_a_fleet_that_does_not_exist_has_only_ports() -> None:
    (check,) = checks(cluster(), fresh(cluster()))
    assert (check.name, check.severity, check.evidence) == (
        "ports",
        OK,
        "the ports of all 6 nodes are free or held by the fleet",
    )


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"presence": Presence.STRANGER}, id="stranger"),
        pytest.param({"presence": Presence.FOREIGN}, id="foreign"),
        pytest.param({"disk": OnDisk(port_taken=17_001)}, id="bus port"),
    ],
)
def test_a_port_that_is_held(facts: dict[str, object]) -> None:
    check = check_of("ports", checks(cluster(), changed(fresh(cluster()), "node-1", **facts)))
    assert (check.severity, check.evidence) == (CRITICAL, "another process holds the port of node-1 at 127.0.0.1:7001")


@pytest.mark.parametrize(
    ("target", "fix"),
    [
        pytest.param(TargetName.HOSTS, "repair ssh and sudo to the host", id="hosts"),
        pytest.param(TargetName.LOCAL, "end the process that listens there", id="local"),
    ],
)
def test_a_port_that_is_not_proven_is_not_said_to_be_anothers(target: TargetName, fix: str) -> None:
    topology = replace(cluster(), target=target, hosts=(HostEntry(address="10.0.0.1"),))
    found = checks(topology, changed(healthy(topology), "node-1", presence=Presence.UNPROVEN, evidence="no sudo"))
    check = check_of("ports", found)
    assert (check.severity, check.evidence) == (
        UNKNOWN,
        f"not proven to belong to the fleet: node-1 at {desired_of(topology).specs[name('node-1')].endpoint}",
    )
    for one in (check, check_of("node-unproven", found, "node-1")):
        assert one.fix.startswith(fix)
        assert "`security: {tls: true}`" in one.fix


def test_findings_become_checks_with_their_fix() -> None:
    found = checks(cluster(), killed(healthy(cluster()), "node-1"))
    assert check_of("node-down", found, "node-1").fix == "rlctl deploy"
    assert check_of("node-down", found, "node-1").severity is WARNING
    assert check_of("slots-uncovered", found, "shard 1").severity is CRITICAL
    denied = checks(cluster(), changed(healthy(cluster()), "node-3", presence=Presence.DENIED))
    assert check_of("node-denied", denied, "node-3").fix == "rlctl secrets import FILE"


@pytest.mark.parametrize(
    ("used", "limit", "severity", "evidence"),
    [
        pytest.param(69, "100", OK, "69 bytes of 100 bytes used (69%)", id="well"),
        pytest.param(70, "100", WARNING, "70 bytes of 100 bytes used (70%)", id="much"),
        pytest.param(84, "100", WARNING, "84 bytes of 100 bytes used (84%)", id="still much"),
        pytest.param(85, "100", CRITICAL, "85 bytes of 100 bytes used (85%)", id="too much"),
        pytest.param(1, "0", WARNING, "maxmemory is 0: memory is not limited", id="unbounded"),
        pytest.param(None, "100", UNKNOWN, "used memory or maxmemory could not be read", id="use unread"),
        pytest.param(1, "", UNKNOWN, "used memory or maxmemory could not be read", id="limit unread"),
    ],
)
def test_memory(used: int | None, limit: str, severity: CheckSeverity, evidence: str) -> None:
    state = changed(healthy(cluster()), "node-2", used_bytes=used, settings={"maxmemory": limit})
    check = check_of("memory-used", checks(cluster(), state), "node-2")
    assert (check.severity, check.evidence) == (severity, evidence)


@pytest.mark.parametrize(
    ("tls", "address", "severity", "evidence"),
    [
        pytest.param(False, "127.0.0.1", OK, "loopback only", id="loopback"),
        pytest.param(True, "10.0.0.1", OK, "TLS", id="tls"),
        pytest.param(False, "10.0.0.1", WARNING, "can join the cluster", id="open"),
    ],
)
def test_bus(tls: bool, address: str, severity: CheckSeverity, evidence: str) -> None:  # noqa: FBT001
    topology = replace(cluster(), security=Security(tls=tls), local=LocalPlace(address=address))
    check = check_of("bus-authentication", checks(topology))
    assert check.severity is severity
    assert evidence in check.evidence


@pytest.mark.parametrize(
    ("exposed", "severity", "evidence"),
    [
        pytest.param((), OK, "no other user can read or change a file of the fleet", id="private"),
        pytest.param(("a", "b", "c"), CRITICAL, "other users can read a, b, c", id="three"),
        pytest.param(("a", "b", "c", "d", "e"), CRITICAL, "other users can read a, b, c and 2 more", id="many"),
    ],
)
def test_file_modes(exposed: tuple[str, ...], severity: CheckSeverity, evidence: str) -> None:
    check = check_of("file-modes", checks(cluster(), files=FileFacts(exposed=exposed)))
    assert (check.severity, check.evidence) == (severity, evidence)


def test_what_others_could_have_changed_is_told_beside_what_they_may_read() -> None:
    files = FileFacts(exposed=("a",), distrusted=(("b belongs to another", "do this"), ("c is a link", "do that")))
    found = [check for check in checks(cluster(), files=files) if check.name == "file-modes"]
    assert [check.severity for check in found] == [CRITICAL] * 3
    assert [check.evidence for check in found] == ["b belongs to another", "c is a link", "other users can read a"]
    assert [check.fix for check in found][:2] == ["do this", "do that"]


@pytest.mark.parametrize(
    ("directives", "most", "wanted"),
    [
        pytest.param((), "32", 10_000, id="the default"),
        pytest.param((("maxclients", "20000"),), "10000", 20_000, id="of the topology"),
    ],
)
def test_a_server_that_lowered_its_maxclients(directives: tuple[Directive, ...], most: str, wanted: int) -> None:
    topology = replace(cluster(), redis=directives)
    state = changed(healthy(topology), "node-1", settings={"maxclients": most})
    check = check_of("maxclients-lowered", checks(topology, state), "node-1")
    assert check.severity is WARNING
    assert check.evidence.startswith(f"maxclients is {most}, not {wanted}: ")
    assert f"ulimit -n {wanted + 32}" in check.fix


@pytest.mark.parametrize("most", ["10000", "20000"])
def test_a_server_that_takes_enough_clients(most: str) -> None:
    state = changed(healthy(cluster()), "node-1", settings={"maxclients": most})
    assert check_of("maxclients-lowered", checks(cluster(), state)).severity is OK


@pytest.mark.parametrize(
    ("days", "severity"),
    [
        pytest.param(-1, CRITICAL, id="over"),
        pytest.param(6, CRITICAL, id="this week"),
        pytest.param(7, WARNING, id="soon"),
        pytest.param(20, WARNING, id="within three weeks"),
        pytest.param(21, OK, id="later"),
    ],
)
def test_certificates(days: int, severity: CheckSeverity) -> None:
    ends = NOW + timedelta(days=days)
    check = check_of("certificate", checks(cluster(), files=FileFacts(certificates=(("node-0", ends),))), "node-0")
    assert check.severity is severity
    assert check.evidence == f"valid until {ends:%Y-%m-%d} ({days} days)"
