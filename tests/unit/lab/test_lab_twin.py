"""The twin of a topology: its shape and settings, with what a drill has to change."""

from dataclasses import replace

import pytest

from rlctl.lab.twin import check_settings, twin_of, with_settings
from rlctl.topology.model import MIB, HostEntry, Kind, PersistenceMode, TargetName, Topology
from tests.unit import fleets

DEPLOYED = replace(fleets.cluster(shards=4, replicas=2), hosts=(HostEntry(address="192.0.2.1"),))


def test_a_setting_is_spelled_as_in_a_topology_file() -> None:
    settings = {"cluster.node_timeout": "2500ms", "persistence.mode": "none", "consistency.min_replicas": "1"}
    assert list(check_settings(settings)) == []
    found = with_settings(DEPLOYED, settings)
    assert found.cluster == replace(DEPLOYED.cluster, node_timeout_ms=2500)
    assert found.persistence.mode is PersistenceMode.NONE
    assert found.consistency.min_replicas == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"nowhere.nothing": "1"},
        {"cluster": "1"},
        {"cluster.nothing": "1"},
        {"cluster.node_timeout": "soon"},
        {"persistence.mode": "perhaps"},
        {"cluster.shards": "0"},
    ],
    ids=str,
)
def test_what_is_wrong_with_a_setting(settings: dict[str, str]) -> None:
    [(path, _)] = settings.items()
    [mistake] = check_settings(settings)
    assert mistake.startswith(f"{path}: ")


@pytest.mark.parametrize("kind", Kind)
def test_a_twin_has_the_shape_of_the_fleet_and_places_of_its_own(kind: Kind) -> None:
    twin = twin_of(DEPLOYED, kind, {}, stock_timers=False)
    assert (twin.name, twin.kind, twin.target, twin.local.spread, twin.hosts) == (
        *("drill", kind, TargetName.LOCAL, True),
        (),
    )
    assert twin.cluster == replace(DEPLOYED.cluster, node_timeout_ms=1000)
    assert twin.sentinel == replace(DEPLOYED.sentinel, down_after_ms=1000, failover_timeout_ms=10_000)
    assert twin.persistence == DEPLOYED.persistence


def test_stock_timers_are_the_fleets_own() -> None:
    twin = twin_of(DEPLOYED, Kind.CLUSTER, {}, stock_timers=True)
    assert (twin.cluster, twin.sentinel) == (DEPLOYED.cluster, DEPLOYED.sentinel)


def test_a_scenarios_settings_come_last() -> None:
    twin = twin_of(DEPLOYED, Kind.CLUSTER, {"cluster.node_timeout": "5s"}, stock_timers=False)
    assert twin.cluster.node_timeout_ms == 5000


@pytest.mark.parametrize(("deployed", "twins"), [(512 * MIB, 64 * MIB), (32 * MIB, 32 * MIB)])
def test_a_twin_takes_little_memory(deployed: int, twins: int) -> None:
    topology: Topology = replace(DEPLOYED, memory=replace(DEPLOYED.memory, maxmemory_bytes=deployed))
    assert twin_of(topology, Kind.CLUSTER, {}, stock_timers=False).memory.maxmemory_bytes == twins
