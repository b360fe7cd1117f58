"""Settings change, comments stay."""

from dataclasses import replace

import pytest

from rlctl.errors import Refused
from rlctl.topology.load import load_topology
from rlctl.topology.model import Kind, TargetName, Topology
from rlctl.topology.rewrite import rewrite
from rlctl.topology.template import template

HEAD = "version: 1\nname: limiter\nkind: cluster\ntarget: local\n"
CHANGES = {("memory", "maxmemory"): "512mb", ("cluster", "shards"): "5"}


def changed(text: str) -> str:
    topology = load_topology(text.encode(), "t.yaml")
    return rewrite(text, "t.yaml", CHANGES, wanted(topology))


def wanted(topology: Topology) -> Topology:
    memory = replace(topology.memory, maxmemory_bytes=512 * 2**20)
    return replace(topology, memory=memory, cluster=replace(topology.cluster, shards=5))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"{HEAD}memory:  # why\n  maxmemory: 256mb  # how\n  policy: noeviction\ncluster: {{shards: 3}}\n",
            f"{HEAD}memory:  # why\n  maxmemory: 512mb  # how\n  policy: noeviction\ncluster: {{shards: 5}}\n",
            id="both are there",
        ),
        pytest.param(HEAD, f"{HEAD}memory: {{maxmemory: 512mb}}\ncluster: {{shards: 5}}\n", id="neither is there"),
        pytest.param(
            f"{HEAD}# end", f"{HEAD}# end\nmemory: {{maxmemory: 512mb}}\ncluster: {{shards: 5}}\n", id="no last newline"
        ),
        pytest.param(
            f"{HEAD}memory:\n  # first\n  policy: noeviction  # kept\ncluster: {{replicas: 2}}  # two\n",
            f"{HEAD}memory:\n  # first\n  maxmemory: 512mb\n  policy: noeviction  # kept\n"
            "cluster: {shards: 5, replicas: 2}  # two\n",
            id="sections without the keys",
        ),
        pytest.param(
            f"{HEAD}memory: # later\ncluster: {{}}\n",
            f"{HEAD}memory: {{maxmemory: 512mb}} # later\ncluster: {{shards: 5}}\n",
            id="empty sections",
        ),
        pytest.param(
            '{version: 1, name: a, kind: cluster, target: local, memory: {"maxmemory": "64mb"}}\n',
            '{cluster: {shards: 5}, version: 1, name: a, kind: cluster, target: local, memory: {"maxmemory": 512mb}}\n',
            id="all in one line",
        ),
    ],
)
def test_only_the_settings_change(before: str, after: str) -> None:
    assert changed(before) == after


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_commented_sample_keeps_every_comment(ending: str) -> None:
    before = template(Kind.CLUSTER, TargetName.LOCAL).replace("\n", ending)
    after = changed(before)
    assert [line.partition("#")[2] for line in before.split(ending)] == [
        line.partition("#")[2] for line in after.split(ending)
    ]
    assert load_topology(after.encode(), "t.yaml") == wanted(load_topology(before.encode(), "t.yaml"))


def test_what_does_not_come_out_as_wanted_is_refused() -> None:
    topology = load_topology(HEAD.encode(), "t.yaml")
    with pytest.raises(Refused, match="no place") as caught:
        rewrite(HEAD, "t.yaml", CHANGES, topology)
    assert "memory.maxmemory: 512mb" in caught.value.hint
