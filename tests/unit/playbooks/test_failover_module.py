"""Failing primaries over before maintenance of their host: to which replica, how often, and when it refuses."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.playbooks.calling import Answer, Failed, load, run

FAILOVER = load("rlctl_failover")
HERE, THERE, ELSEWHERE = "10.0.0.1", "10.0.0.2", "10.0.0.3"
COMMAND = ["rlctl", "-f", "topology.yaml"]


def node(name: str, host: str, role: str = "replica", shard: int = 0, link: str = "up") -> dict[str, Any]:
    return {"id": name, "host": host, "role": role, "shard": shard, "link": link}


@dataclass
class Fleet:
    """Answers as rlctl does; each failover of a shard makes the next of its `heirs` primary."""

    nodes: list[dict[str, Any]]
    heirs: list[str] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)

    def __call__(self, argv: list[str]) -> Answer:
        assert argv[:3] == COMMAND
        assert argv[-2:] == ["-o", "json"]
        words = argv[3:-2]
        self.orders += [words] if words != ["status"] else []
        if words[0] == "failover":
            self._promote(int(words[1]))
        # Exit code 11: the fleet is degraded, and its answer is one all the same.
        return 11, json.dumps({"nodes": self.nodes}), ""

    def _promote(self, shard: int) -> None:
        heir = self.heirs.pop(0)
        for one in self.nodes:
            if one["shard"] == shard:
                one["role"] = "primary" if one["id"] == heir else "replica"


def two_shards() -> Fleet:
    nodes = [
        node("node-0", HERE, "primary"),
        node("node-1", THERE, "primary", shard=1),
        node("node-2", THERE),
        node("node-3", HERE, shard=1),
        {"id": "sentinel-0", "host": HERE, "role": "sentinel", "shard": None, "link": "none"},
    ]
    return Fleet(nodes, heirs=["node-2"])


def fail_over(monkeypatch: pytest.MonkeyPatch, fleet: Fleet, *, check: bool = False) -> dict[str, Any]:
    return run(FAILOVER, monkeypatch, fleet, check=check, command=COMMAND, address=HERE)[0]


def test_each_primary_of_the_host_is_failed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = two_shards()
    assert fail_over(monkeypatch, fleet) == {"changed": True, "failed_over": ["node-0"]}
    assert fleet.orders == [["failover", "0", "--yes"], ["status", "--wait"]]


def test_a_host_without_a_primary_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = two_shards()
    fleet.nodes[0]["host"] = ELSEWHERE
    assert fail_over(monkeypatch, fleet) == {"changed": False, "failed_over": []}
    assert fleet.orders == []


def test_check_mode_tells_and_orders_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = two_shards()
    assert fail_over(monkeypatch, fleet, check=True) == {"changed": True, "failed_over": ["node-0"]}
    assert fleet.orders == []


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(node("node-2", THERE, link="down"), id="not in sync"),
        pytest.param(node("node-2", HERE), id="on the same host"),
        pytest.param(node("node-2", THERE, shard=1), id="of another shard"),
        pytest.param(node("node-2", THERE, role="sentinel"), id="no replica"),
        pytest.param(node("node-2", THERE, role="primary"), id="a second primary"),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_without_a_replica_elsewhere_nothing_is_ordered(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], *, check: bool
) -> None:
    fleet = Fleet([node("node-0", HERE, "primary"), other])
    with pytest.raises(Failed, match=r"node-0 has no replica in sync on another host.*nothing was changed"):
        fail_over(monkeypatch, fleet, check=check)
    assert fleet.orders == []


def test_every_primary_needs_its_replica_before_the_first_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = two_shards()
    fleet.nodes[1]["host"] = HERE
    with pytest.raises(Failed, match="node-1 has no replica"):
        fail_over(monkeypatch, fleet)
    assert fleet.orders == []


def three_of_sentinel(*heirs: str) -> Fleet:
    return Fleet(
        [node("node-0", HERE, "primary"), node("node-1", HERE), node("node-2", THERE), node("node-3", THERE)],
        heirs=list(heirs),
    )


def test_it_fails_over_again_where_sentinel_chose_a_replica_of_the_same_host(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = three_of_sentinel("node-1", "node-0", "node-2")
    fail_over(monkeypatch, fleet)
    assert fleet.orders == [["failover", "0", "--yes"], ["status", "--wait"]] * 3


def test_it_gives_up_after_five_elections(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = three_of_sentinel(*["node-1", "node-0"] * 3)
    with pytest.raises(Failed, match=r"after 5 failovers 10.0.0.1 still has a primary \(node-1\): Sentinel chose"):
        fail_over(monkeypatch, fleet)
    assert len(fleet.orders) == 10


def test_an_answer_that_is_no_json_says_what_rlctl_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failed, match=r"`rlctl status` ended with exit code 3 and no JSON: no topology$"):
        run(FAILOVER, monkeypatch, lambda _argv: (3, "", "no topology\n"), command=COMMAND, address=HERE)
