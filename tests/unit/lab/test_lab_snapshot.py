"""What a run must not leave changed, and what of a difference is shown."""

import pytest

from rlctl.lab.snapshot import SnapshotValue, differences, read_settings, read_users

LIMITER = "user limiter on #5e88 ~rl:* -@all +get"


def node(settings: dict[str, str], *users: str) -> dict[str, SnapshotValue]:
    """One node's values, as its answers give them."""
    pairs = [word for pair in settings.items() for word in pair]
    return {**dict(read_settings(pairs)), **dict(read_users(list(users)))}


BEFORE = {"node-0": node({"hz": "10", "masterauth": "secret"}, LIMITER), "node-1": node({"hz": "10"})}


@pytest.mark.parametrize(
    ("node_0", "found"),
    [
        pytest.param(BEFORE["node-0"], [], id="the same"),
        pytest.param(
            node({"hz": "50", "masterauth": "secret"}, LIMITER), ["node-0: hz is 50, it was 10"], id="a setting"
        ),
        pytest.param(
            node({"hz": "10", "masterauth": "other"}, LIMITER), ["node-0: masterauth has another value"], id="a secret"
        ),
        pytest.param(
            node({"hz": "10", "masterauth": "secret"}, LIMITER.replace("#5e88", "#9f86")),
            ["node-0: user limiter has another password"],
            id="a password",
        ),
        pytest.param(
            node({"hz": "10", "masterauth": "secret"}, LIMITER.replace("+get", "+set")),
            ["node-0: user limiter gained ['+set'] and lost ['+get']"],
            id="rights",
        ),
        pytest.param(node({"hz": "10", "masterauth": "secret"}), ["node-0: user limiter is gone"], id="a user gone"),
        pytest.param(
            node({"hz": "10", "masterauth": "secret"}, LIMITER, "user x on nopass"),
            ["node-0: user x was added"],
            id="a user more",
        ),
        pytest.param(
            node({"hz": "10", "masterauth": "secret"}, "user limiter on -@all #5e88 +get ~rl:*"),
            [],
            id="rights in another order",
        ),
        pytest.param({}, [], id="a node that does not answer is not compared"),
    ],
)
def test_what_differs_is_named_without_secrets(node_0: dict[str, SnapshotValue], found: list[str]) -> None:
    assert list(differences(BEFORE, {**BEFORE, "node-0": node_0}, {})) == found


def test_a_node_that_is_gone_is_not_compared() -> None:
    assert differences(BEFORE, {"node-0": BEFORE["node-0"]}, {}) == ()


@pytest.mark.parametrize(("wanted", "is_left"), [("50", False), ("20", True)])
def test_what_the_topology_asks_for_now_is_not_left_behind(wanted: str, *, is_left: bool) -> None:
    after = {**BEFORE, "node-1": node({"hz": "50"})}
    assert bool(differences(BEFORE, after, {"hz": wanted})) is is_left


def test_a_failover_changes_which_primary_a_node_follows() -> None:
    assert node({"replicaof": "127.0.0.1 7000", "slaveof": ""}) == {}


def test_no_secret_is_kept() -> None:
    assert "secret" not in repr(BEFORE)
    assert "5e88" not in repr(BEFORE)
