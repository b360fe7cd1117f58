"""Settings change, and every other byte stays."""

from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
            "{cluster: {shards: 5}, version: 1, name: a, kind: cluster, target: local, "
            'memory: {"maxmemory": "512mb"}}\n',
            id="all in one line",
        ),
        pytest.param(
            f"{HEAD}memory: {{maxmemory: '256mb', policy: noeviction}}\ncluster:\n  shards: 3\n",
            f"{HEAD}memory: {{maxmemory: '512mb', policy: noeviction}}\ncluster:\n  shards: 5\n",
            id="quotes stay",
        ),
        pytest.param(
            f"---\n{HEAD}# end\n...\n",
            f"---\n{HEAD}# end\nmemory: {{maxmemory: 512mb}}\ncluster: {{shards: 5}}\n...\n",
            id="marks of a document",
        ),
        pytest.param(
            f"{HEAD}memory: ~ # none\ncluster:\n",
            f"{HEAD}memory: {{maxmemory: 512mb}} # none\ncluster: {{shards: 5}}\n",
            id="sections that say they are empty",
        ),
        pytest.param(
            f"\ufeff{HEAD}memory: {{\n  policy: noeviction,\n}}\n".replace("\n", "\r\n"),
            f"\ufeff{HEAD}memory: {{maxmemory: 512mb,\n  policy: noeviction,\n}}\ncluster: {{shards: 5}}\n".replace(
                "\n", "\r\n"
            ),
            id="a mark before all, CRLF, flow over lines",
        ),
        pytest.param(
            "  version: 1\n  name: limiter\n  kind: cluster\n  target: local\n",
            "  version: 1\n  name: limiter\n  kind: cluster\n  target: local\n"
            "  memory: {maxmemory: 512mb}\n  cluster: {shards: 5}\n",
            id="indented as a whole",
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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{HEAD}memory:\n  maxmemory: >-\n    256mb\n  policy: noeviction\n", id="folded"),
        pytest.param("{memory, version: 1, name: limiter, kind: cluster, target: local}\n", id="a key alone"),
        pytest.param(f"{HEAD}memory:\n  ? policy\n  : noeviction\n", id="marked keys"),
    ],
)
def test_a_form_without_a_place_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="cannot write the settings"):
        changed(text)


LINES = st.sampled_from(["", "# a comment\n", "\n", "   # indented: 256mb\n"])
ENDS = st.sampled_from(["", "  # maxmemory: 1gb", " #"])
VALUES = st.sampled_from(["256mb", "'256mb'", '"64mb"', "1gb", "100MB"])
POLICIES = st.sampled_from(["noeviction", "'noeviction'", '"volatile-ttl"'])


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """A section `memory` in block style."""
    indent = " " * draw(st.integers(1, 5))
    settings = [("maxmemory", draw(VALUES)), ("policy", draw(POLICIES))]
    chosen = draw(st.lists(st.sampled_from(settings), unique=True, min_size=1).flatmap(st.permutations))
    lines = [
        f"{draw(LINES)}{indent}{key}:{' ' * draw(st.integers(1, 3))}{value}{draw(ENDS)}\n" for key, value in chosen
    ]
    return f"memory:{draw(ENDS)}\n{''.join(lines)}"


@st.composite
def flows(draw: st.DrawFn) -> str:
    """A section `memory` in flow style."""
    settings = [f"maxmemory: {draw(VALUES)}", f'"policy": {draw(POLICIES)}']
    chosen = draw(st.lists(st.sampled_from(settings), unique=True).flatmap(st.permutations))
    inner = draw(st.sampled_from([", ", ",", ",\n   "])).join(chosen)
    return f"memory: {{{draw(st.sampled_from(['', ' ', chr(10) + '  ']))}{inner}}}{draw(ENDS)}\n"


@st.composite
def files(draw: st.DrawFn) -> str:
    """A topology in any style that a user may have written."""
    memory = draw(st.sampled_from(["", "memory:\n", "memory: ~\n"]) | blocks() | flows())
    parts = [*HEAD.splitlines(keepends=True), memory, draw(LINES), draw(LINES)]
    body = "".join(draw(st.permutations(parts)))
    text = f"{draw(st.sampled_from(['', '---' + chr(10)]))}{body}{draw(st.sampled_from(['', '...' + chr(10)]))}"
    if draw(st.booleans()) and not text.endswith("...\n"):
        text = text.rstrip("\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@settings(max_examples=300, deadline=None)
@given(files())
def test_one_place_changes_and_nothing_else(before: str) -> None:
    topology = load_topology(before.encode(), "t.yaml")
    target = replace(topology, memory=replace(topology.memory, maxmemory_bytes=512 * 2**20))
    after = rewrite(before, "t.yaml", {("memory", "maxmemory"): "512mb"}, target)
    start = common(before, after)
    end = common(before[start:][::-1], after[start:][::-1])
    removed, added = before[start : len(before) - end], after[start : len(after) - end]
    assert removed in {"", "~"} or any(removed in value for value in ("256", "64", "1g", "100M", "100MB"))
    assert len(added) <= len("\r\n     memory: {maxmemory: 512mb}\r\n")
    assert ("\r\n" in before) <= ("\n" not in after.replace("\r\n", ""))


def common(one: str, other: str) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def test_what_does_not_come_out_as_wanted_is_refused() -> None:
    topology = load_topology(HEAD.encode(), "t.yaml")
    with pytest.raises(Refused, match="cannot write the settings") as caught:
        rewrite(HEAD, "t.yaml", CHANGES, topology)
    assert "memory.maxmemory: 512mb" in caught.value.hint
