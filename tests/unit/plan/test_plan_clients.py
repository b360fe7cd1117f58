"""Servers that take fewer clients than the topology asks for."""

import pytest

from rlctl.plan.clients import lowered_maxclients
from rlctl.render.redis_conf import MAXCLIENTS, max_clients
from tests.unit.fleets import changed, cluster, desired_of, healthy, hung, watched

WANTED = max_clients(cluster())


@pytest.mark.parametrize(
    ("most", "found"),
    [
        pytest.param(str(WANTED), {}, id="as many as wanted"),
        pytest.param(str(WANTED + 1), {}, id="more"),
        pytest.param(str(WANTED - 1), {"node-1": WANTED - 1}, id="fewer"),
        pytest.param("", {}, id="not told"),
        pytest.param("many", {}, id="no number"),
    ],
)
def test_nodes_that_take_fewer_clients(most: str, found: dict[str, int]) -> None:
    state = changed(healthy(cluster()), "node-1", settings={MAXCLIENTS: most})
    assert lowered_maxclients(desired_of(cluster()), state) == found


def test_neither_a_sentinel_nor_a_node_that_hangs_counts() -> None:
    state = changed(healthy(watched()), "sentinel-0", settings={MAXCLIENTS: "1"})
    assert lowered_maxclients(desired_of(watched()), state) == {}
    silent = hung(changed(healthy(cluster()), "node-1", settings={MAXCLIENTS: "1"}), "node-1")
    assert lowered_maxclients(desired_of(cluster()), silent) == {}


def test_a_node_whose_settings_were_not_read_is_not_named() -> None:
    assert lowered_maxclients(desired_of(cluster()), changed(healthy(cluster()), "node-1", settings={})) == {}
