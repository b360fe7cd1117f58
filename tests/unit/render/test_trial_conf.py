"""The configuration of a trial start: the section `redis` of the nodes, no reachable port, no files."""

from dataclasses import replace
from pathlib import PurePosixPath

from rlctl.render.redis_conf import NodeFiles, static_conf, topology_directives
from rlctl.render.trial_conf import trial_conf
from rlctl.secrets import generate
from rlctl.topology.nodes import all_nodes
from tests.unit.fleets import cluster

TOPOLOGY = replace(
    cluster(), redis=(("client-output-buffer-limit", "normal 0 0 0"), ("loglevel", "warning"), ("x", ""))
)
SECRETS = generate("limiter", None)


def test_the_directives_come_first_and_rlctls_own_win() -> None:
    lines = trial_conf(topology_directives(TOPOLOGY)).splitlines()
    assert lines[:3] == ["client-output-buffer-limit normal 0 0 0", "loglevel warning", 'x ""']
    assert {"port 0", "unixsocketperm 700", 'save ""', "appendonly no", "loglevel notice"} <= set(lines[3:])


def test_they_are_spelled_as_in_the_nodes_own_file() -> None:
    spec = all_nodes(TOPOLOGY)[0]
    conf = static_conf(TOPOLOGY, spec, NodeFiles(folder=PurePosixPath("/data")), SECRETS).splitlines()
    assert {" ".join(one) for one in topology_directives(TOPOLOGY)} <= set(conf)
