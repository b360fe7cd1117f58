"""Which nodes are asked once more, and what they are taken for afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import pytest

from rlctl.observe.collect import Collector
from rlctl.observe.connect import Connector
from rlctl.observe.model import OnDisk, Presence
from rlctl.scripts.release import load_release
from rlctl.secrets import generate
from rlctl.system.clock import SystemClock
from rlctl.system.redis import Closed, HandshakeDropped, LinkFailure, LoginRefused, Silent, Unproven
from rlctl.topology.nodes import NodeName, NodeSpec
from tests.unit.fleets import cluster

TOPOLOGY = cluster(shards=1, replicas=0)


class Failing:
    """Connections that fail one after the other."""

    def __init__(self, *failures: type[LinkFailure]) -> None:
        self.failures = list(failures)

    def is_open(self, _spec: NodeSpec) -> bool:
        return False

    def link(self, _spec: NodeSpec) -> NoReturn:
        raise self.failures.pop(0)("127.0.0.1:7000: it fails")

    def abort(self) -> None:
        pass


def placed(specs: Sequence[NodeSpec]) -> Mapping[NodeName, OnDisk]:
    return {spec.name: OnDisk(running=True) for spec in specs}


@pytest.mark.parametrize(
    ("failures", "presence"),
    [
        pytest.param([Unproven, Closed], Presence.ABSENT, id="it ended before it was proven"),
        pytest.param([Unproven, Unproven], Presence.UNPROVEN, id="another process"),
        pytest.param([HandshakeDropped, Closed], Presence.ABSENT, id="it was just ending"),
        pytest.param([HandshakeDropped, HandshakeDropped], Presence.HUNG, id="it hangs up on all"),
        pytest.param([Closed], Presence.ABSENT, id="nothing listens"),
        pytest.param([Silent], Presence.HUNG, id="it is silent"),
        pytest.param([LoginRefused], Presence.DENIED, id="it refuses"),
    ],
)
def test_a_node_that_fails(failures: list[type[LinkFailure]], presence: Presence) -> None:
    connector: Any = Failing(*failures)
    secrets = generate(TOPOLOGY.name, None)
    collector = Collector(TOPOLOGY, secrets, load_release(), cast("Connector", connector), placed, SystemClock())
    [node] = collector.collect().nodes
    assert node.presence is presence
    assert connector.failures == []
