"""Settings: what counts as the same value, in the server's spelling and in the topology's."""

from dataclasses import replace

import pytest

from rlctl.plan.desired import setting_drift
from rlctl.plan.planner import make_plan
from rlctl.plan.steps import Configure
from tests.unit.fleets import changed, cluster, desired_of, healthy, hung


def drift(setting: str, wanted: str, found: str) -> list[tuple[str, str]]:
    topology = replace(cluster(3, 0), redis=((setting, wanted),))
    node = changed(healthy(topology), "node-0", settings={setting: found}).nodes[0]
    return [(one.wanted, one.found) for one in setting_drift(desired_of(topology), node)]


@pytest.mark.parametrize(
    ("setting", "wanted", "found"),
    [
        pytest.param("repl-backlog-size", "1mb", "1048576", id="binary megabytes"),
        pytest.param("repl-backlog-size", "1m", "1000000", id="decimal megabytes"),
        pytest.param("repl-backlog-size", "2GB", "2147483648", id="capitals"),
        pytest.param("maxmemory-clients", "5k", "5000", id="decimal kilobytes"),
        pytest.param("maxmemory-clients", "0mb", "0", id="nothing"),
        pytest.param("maxmemory-clients", "5%", "5%", id="a share"),
        pytest.param("hz", "10", "10", id="a number"),
        pytest.param("hz", '"10"', "10", id="double quotes"),
        pytest.param("hz", "'10'", "10", id="single quotes"),
        pytest.param("activedefrag", "YES", "yes", id="a word"),
        pytest.param("loglevel", "", "", id="empty"),
        pytest.param("notify-keyspace-events", "Ex", "xE", id="events in another order"),
        pytest.param("notify-keyspace-events", "KEA", "AKE", id="all events"),
        pytest.param("client-output-buffer-limit", "replica 1 2 3", "normal 0 0 0 slave 1 2 3", id="several words"),
    ],
)
def test_the_same(setting: str, wanted: str, found: str) -> None:
    assert drift(setting, wanted, found) == []


@pytest.mark.parametrize(
    ("setting", "wanted", "found", "sent"),
    [
        pytest.param("repl-backlog-size", "1mb", "1000000", "1mb", id="size"),
        pytest.param("hz", '"10"', "11", "10", id="the server gets no quotes"),
        pytest.param("save", '""', "3600 1", "", id="no snapshots"),
        pytest.param("save", "3600 1", "3600 1 60 100", "3600 1", id="other snapshots"),
        pytest.param("notify-keyspace-events", "Ex", "x", "Ex", id="events"),
        pytest.param("loglevel", "'", "", "'", id="one quote quotes nothing"),
        pytest.param("loglevel", "'a\"", "a", "'a\"", id="nor do two different ones"),
    ],
)
def test_a_drift(setting: str, wanted: str, found: str, sent: str) -> None:
    assert drift(setting, wanted, found) == [(sent, found)]


@pytest.mark.parametrize(
    ("unit", "size"),
    [("", 1), ("b", 1), ("k", 10**3), ("m", 10**6), ("g", 10**9), ("kb", 2**10), ("mb", 2**20), ("gb", 2**30)],
)
def test_the_units_of_redis(unit: str, size: int) -> None:
    assert drift("repl-backlog-size", f"3{unit}", str(3 * size)) == []
    assert drift("repl-backlog-size", f"3{unit}", str(3 * size + 1)) != []


def test_a_live_drift_is_configured() -> None:
    topology = replace(cluster(3, 0), redis=(("hz", "20"),))
    state = changed(healthy(topology), "node-2", settings={"hz": "10"})
    assert make_plan(desired_of(topology), state).steps == (
        Configure(node=state.nodes[2].name, setting="hz", value="20", was="10"),
    )


def test_a_node_that_keeps_silent_has_no_drift() -> None:
    state = hung(healthy(cluster()), "node-0")
    assert setting_drift(desired_of(cluster()), state.nodes[0]) == ()
