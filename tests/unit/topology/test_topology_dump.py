from dataclasses import replace
from itertools import product

import pytest

from rlctl.topology.dump import topology_text
from rlctl.topology.load import load_topology
from rlctl.topology.model import (
    ClusterShape,
    Consistency,
    Drills,
    Engine,
    EvictionPolicy,
    Flavor,
    HostEntry,
    Kind,
    LocalPlace,
    Memory,
    Persistence,
    PersistenceMode,
    Security,
    SentinelShape,
    TargetName,
    Topology,
)

HOST = HostEntry(address="10.0.0.11")
FULL = Topology(
    name="limiter",
    kind=Kind.CLUSTER,
    target=TargetName.HOSTS,
    cluster=ClusterShape(shards=4, replicas=2, node_timeout_ms=1_500, full_coverage=True),
    sentinel=SentinelShape(replicas=1, down_after_ms=2_000),
    consistency=Consistency(min_replicas=1, max_lag_ms=2_000),
    memory=Memory(maxmemory_bytes=64 * 1024**2 + 1, policy=EvictionPolicy.ALLKEYS_LRU),
    persistence=Persistence(mode=PersistenceMode.RDB),
    engine=Engine(flavor=Flavor.VALKEY, version="8.1"),
    redis=(("hz", "50"), ("slowlog-max-len", "1000")),
    security=Security(tls=True, services=("checkout", "search")),
    hosts=(
        replace(HOST, name="7", zone="on", user="ops", port=2222, nodes=9, base_port=9_000, sentinel=False),
        replace(HOST, address="10.0.0.12"),
    ),
    drills=Drills(allow=True),
)


@pytest.mark.parametrize(
    "topology",
    [
        *(
            Topology(name="limiter", kind=kind, target=target, hosts=(HOST,) if target is TargetName.HOSTS else ())
            for kind, target in product(Kind, TargetName)
        ),
        FULL,
        replace(FULL, target=TargetName.LOCAL, local=LocalPlace(spread=True)),
    ],
)
def test_what_is_written_loads_as_what_it_was(topology: Topology) -> None:
    assert load_topology(topology_text(topology).encode(), "t.yaml") == topology
