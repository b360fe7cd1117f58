"""Where nodes differ from the release: every class of difference, on both kinds of fleet."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlctl.limits.release import Registered
from rlctl.observe.model import Observed, Presence, Role
from rlctl.operations.script_drift import missing, script_drift
from rlctl.scripts.release import load_release
from rlctl.topology.model import Topology
from tests.unit.fleets import Damage, changed, cluster, desired_of, following, healthy, hung, killed, name, watched

RELEASE = load_release()
ALL = frozenset(script.sha1 for script in RELEASE.scripts)
GCRA, OTHERS = RELEASE.scripts[0], frozenset(script.sha1 for script in RELEASE.scripts[1:])
CURRENT = Registered(release=RELEASE.version, digest=RELEASE.digest, state="applied")
Found = list[tuple[str, str | None, str | None]]


def loaded(topology: Topology) -> Observed:
    """A fleet at rest with every script on every data node."""
    nodes = (node if node.role is Role.SENTINEL else replace(node, scripts=ALL) for node in healthy(topology).nodes)
    return Observed(nodes=tuple(nodes))


def fact(node: str, **facts: object) -> Damage:
    return lambda state: changed(state, node, **facts)


def drift(topology: Topology, *damages: Damage, registered: Registered | None = CURRENT) -> Found:
    state = loaded(topology)
    for damage in damages:
        state = damage(state)
    found = script_drift(desired_of(topology), state, RELEASE, registered)
    return [(one.kind.value, one.node, one.script) for one in found]


def without_gcra(*nodes: str) -> list[Damage]:
    return [fact(node, scripts=OTHERS) for node in nodes]


@pytest.mark.parametrize("make", [cluster, watched])
@pytest.mark.parametrize(
    ("damages", "found"),
    [
        pytest.param([], [], id="none"),
        pytest.param(without_gcra("node-0"), [("MISSING", "node-0", GCRA.name)], id="a primary lacks one"),
        pytest.param([fact("node-0", scripts=None)], [("UNREACHABLE", "node-0", None)], id="a node that was not read"),
        pytest.param([fact("node-0", acl_revision="old")], [("ACL", "node-0", None)], id="users of another release"),
        pytest.param(
            [fact("node-0", users_off=frozenset({"limiter"}))], [("ACL", "node-0", None)], id="a user is turned away"
        ),
        pytest.param([fact("node-1", version="7.2.4")], [("VERSION_SKEW", None, None)], id="two versions"),
        pytest.param([fact("node-1", version=None)], [], id="one version and one that is not known"),
        pytest.param(
            [lambda state: Observed(nodes=tuple(replace(node, version="7.2.4") for node in state.nodes))],
            [],
            id="another version everywhere",
        ),
        pytest.param(
            [lambda state: hung(state, "node-1")],
            [("UNREACHABLE", "node-1", None)],
            id="a node that hangs has no users",
        ),
        pytest.param(
            [fact("node-1", presence=Presence.HUNG, version="7.2.4")], [], id="the version of a node that hangs is old"
        ),
    ],
)
def test_drift(make: Callable[[], Topology], damages: list[Damage], found: Found) -> None:
    assert drift(make(), *damages) == found


@pytest.mark.parametrize(
    ("topology", "replica"),
    [pytest.param(cluster(), "node-3", id="cluster"), pytest.param(watched(), "node-2", id="s")],
)
def test_what_only_a_replica_lacks_is_not_missing_to_clients(topology: Topology, replica: str) -> None:
    assert drift(topology, *without_gcra(replica)) == [("REPLICA_ONLY_MISSING", replica, GCRA.name)]
    both = [("MISSING", "node-0", GCRA.name), ("MISSING", replica, GCRA.name)]
    assert drift(topology, *without_gcra("node-0", replica)) == both


def test_a_script_that_another_primary_lacks_is_missing_on_a_replica_too() -> None:
    found = drift(cluster(), *without_gcra("node-1", "node-3"))
    assert found == [("MISSING", "node-1", GCRA.name), ("MISSING", "node-3", GCRA.name)]


def test_without_a_primary_that_was_read_no_script_is_known_to_be_there() -> None:
    unread = [fact(f"node-{index}", scripts=None) for index in range(3)]
    assert ("MISSING", "node-3", GCRA.name) in drift(cluster(), *unread, *without_gcra("node-3"))


def test_a_second_primary_counts_as_one() -> None:
    damages = [*without_gcra("node-3"), lambda state: following(state, "node-0", "node-3")]
    assert drift(cluster(), *damages, fact("node-3", role=Role.PRIMARY)) == [("MISSING", "node-3", GCRA.name)]


def test_a_sentinel_has_neither_scripts_nor_users_of_a_release() -> None:
    assert drift(watched(), fact("sentinel-0", scripts=None, acl_revision="old")) == []


@pytest.mark.parametrize(
    ("registered", "found"),
    [
        pytest.param(None, [], id="never applied"),
        pytest.param(replace(CURRENT, state="dirty"), [], id="dirty, but this one"),
        pytest.param(replace(CURRENT, release="0.0.1"), [("UNKNOWN_RELEASE", None, None)], id="another release"),
        pytest.param(replace(CURRENT, digest="0" * 40), [("UNKNOWN_RELEASE", None, None)], id="other scripts"),
    ],
)
def test_what_the_fleet_remembers(registered: Registered | None, found: Found) -> None:
    assert drift(cluster(), registered=registered) == found


def test_differences_have_a_stable_order() -> None:
    everything = [fact("node-4", version="7.2.4"), fact("node-5", scripts=None), fact("node-2", acl_revision="old")]
    found = drift(cluster(), *everything, *without_gcra("node-1", "node-0"), registered=replace(CURRENT, release="0"))
    assert [(kind, node) for kind, node, _script in found] == [
        ("ACL", "node-2"),
        ("MISSING", "node-0"),
        ("MISSING", "node-1"),
        ("UNKNOWN_RELEASE", None),
        ("UNREACHABLE", "node-5"),
        ("VERSION_SKEW", None),
    ]


def test_differences_are_told_node_by_node() -> None:
    first, *_, last = sorted(RELEASE.scripts, key=lambda script: script.name)
    damages = [fact("node-1", scripts=ALL - {first.sha1}), fact("node-0", scripts=ALL - {last.sha1})]
    assert drift(cluster(), *damages) == [("MISSING", "node-0", last.name), ("MISSING", "node-1", first.name)]


def test_scripts_of_one_node_are_in_order() -> None:
    found = drift(cluster(), fact("node-0", scripts=frozenset()))
    assert [script for _kind, _node, script in found] == sorted(script.name for script in RELEASE.scripts)
    assert sorted(script.name for script in RELEASE.scripts) != [script.name for script in RELEASE.scripts]


def test_of_a_node_that_was_not_read_nothing_is_known() -> None:
    state = killed(loaded(cluster()), "node-0")
    assert missing(RELEASE, state.node(name("node-0"))) == ()
    assert missing(RELEASE, state.node(name("node-1"))) == ()
    assert missing(RELEASE, replace(state.node(name("node-1")), scripts=frozenset())) == RELEASE.scripts


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (without_gcra("node-0")[0], f"missing: node-0 {GCRA.name}"),
        (fact("node-1", version="7.2.4"), "version skew: the whole fleet"),
        (without_gcra("node-3")[0], f"replica only missing: node-3 {GCRA.name}"),
    ],
)
def test_differences_for_people_and_for_programs(damage: Damage, text: str) -> None:
    [found] = script_drift(desired_of(cluster()), damage(loaded(cluster())), RELEASE, CURRENT)
    assert found.describe() == text
    assert found.to_json() == {"class": found.kind.value, "node": found.node, "script": found.script}
