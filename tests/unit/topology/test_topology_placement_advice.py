from dataclasses import replace

import pytest

from rlctl.topology.advice import warnings
from rlctl.topology.model import HostEntry, Kind, TargetName, Topology
from rlctl.topology.placement_advice import placement_faults

CLUSTER = Topology(name="limiter", kind=Kind.CLUSTER, target=TargetName.HOSTS)
SENTINEL = replace(CLUSTER, kind=Kind.SENTINEL)


def hosts(*zones: str | None) -> tuple[HostEntry, ...]:
    return tuple(
        HostEntry(address=f"10.0.0.{number}", name=f"h{number}", zone=zone) for number, zone in enumerate(zones, 1)
    )


@pytest.mark.parametrize(
    ("topology", "zones", "said"),
    [
        pytest.param(CLUSTER, ("a", "b", "c"), (), id="three zones"),
        pytest.param(CLUSTER, (None, None, None), (), id="three hosts"),
        pytest.param(SENTINEL, (None, None, None), (), id="sentinels on three hosts"),
        pytest.param(
            CLUSTER,
            ("a", "a", "b"),
            ("2 of 3 primaries are in zone a: without it there is no majority",),
            id="two zones",
        ),
        pytest.param(
            SENTINEL,
            ("a", "a", "a"),
            (
                "replicas in the zone of their primary: node-1 (node-0), node-2 (node-0)",
                "3 of 3 sentinels are in zone a: without it there is no majority",
            ),
            id="one zone",
        ),
        pytest.param(
            CLUSTER,
            (None,),
            (
                "replicas on the host of their primary: node-3 (node-0), node-4 (node-1), node-5 (node-2)",
                "3 of 3 primaries are in host 10.0.0.1: without it there is no majority",
            ),
            id="one host",
        ),
        pytest.param(replace(CLUSTER, target=TargetName.LOCAL), (None,), (), id="another target"),
    ],
)
def test_only_what_stands_too_near_is_told(
    topology: Topology, zones: tuple[str | None, ...], said: tuple[str, ...]
) -> None:
    placed = replace(topology, hosts=hosts(*zones))
    assert placement_faults(placed) == said
    assert warnings(placed) == tuple(f"placement: {fault}" for fault in said)
