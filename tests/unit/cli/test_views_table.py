"""How opinions look to people: whole where they fit, only what is in question where the fleet is large."""

from dataclasses import replace
from pathlib import Path

import pytest

from rlctl.cli.app import App
from rlctl.cli.output import Output
from rlctl.cli.views import exit_code, show
from rlctl.observe.model import Observed, Role
from rlctl.plan.fence import FENCE_SETTING, FENCED_VALUE
from rlctl.plan.views import Views, views_of
from rlctl.topology.model import Topology
from tests.unit.fleets import changed, cluster, desired_of, fresh, healthy, killed, watched


def views(topology: Topology, state: Observed | None = None) -> Views:
    return views_of(desired_of(topology), state or healthy(topology))


def lines(capsys: pytest.CaptureFixture[str], report: Views, *, verbose: bool = False) -> list[str]:
    output = Output(as_json=False, quiet=False, colour=False)
    show(App(file=Path("t"), names_file=True, output=output, timeout_s=None, verbose=verbose, argv=()), report)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def two_primaries(state: Observed) -> Observed:
    """The fifth of six shards has a second primary, which believes in itself."""
    replica = state.nodes[10]
    own = tuple(
        replace(peer, role=Role.PRIMARY, follows=None, slots=state.nodes[4].slots, epoch=99)
        if peer.id == replica.id
        else peer
        for peer in replica.table
    )
    return changed(
        state, "node-10", role=Role.PRIMARY, follows=None, slots=state.nodes[4].slots, epoch=99, table=own, offset=10**9
    )


def test_a_small_fleet_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    told = lines(capsys, views(cluster(4), killed(healthy(cluster(4)), "node-1")))
    assert told[0] == "critical fleet limiter, cluster, 8 views"
    assert told[1].split() == ["PRIMARY", "SHARD", "EPOCH", "OFFSET", "KEYS", "WRITES", "BELIEVED", "BY", "WINS"]
    assert told[3].split() == ["node-1", "1", "2", "-", "-", "unknown", "7", "of", "7", "yes"]
    assert told[8].split() == ["node-1", "down", "-", "-", "-", "-", "-", "-"]
    assert told[9].split() == ["node-2", "primary", "yes", "node-0", "node-1", "node-2", "node-3", "node-1", "failed"]
    assert told[-1] == "critical no node accepts writes of shard 1: node-1 does not (RB-01)"
    assert len(told) == 2 + 4 + 1 + 8 + 1
    assert max(map(len, told)) <= 80


def test_of_a_large_fleet_only_what_is_in_question(capsys: pytest.CaptureFixture[str]) -> None:
    report = views(cluster(6), two_primaries(healthy(cluster(6))))
    told = lines(capsys, report)
    assert told[0] == "critical fleet limiter, cluster, 12 views"
    assert [line.split()[0] for line in told[2:4]] == ["node-10", "node-4"]
    assert told[4].split() == ["VIEW", "OF", "ROLE", "OK", "SHARD", "4", "DOUBTS"]
    assert "5 of 6 shards" in told[-3]
    assert told[-2].startswith("critical node-10, node-4 each accept writes of shard 4")
    assert max(map(len, told[:-2])) <= 80
    assert len(lines(capsys, report, verbose=True)) > len(told)


def test_a_large_fleet_of_one_mind_takes_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, views(cluster(6))) == [
        "agreeing fleet limiter, cluster, 12 views",
        "6 of 6 shards and 12 of 12 views agree and are hidden; -v shows all",
    ]


def test_an_absent_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    report = views(cluster(), fresh(cluster()))
    assert lines(capsys, report) == ["absent fleet limiter, cluster, 0 views"]
    assert exit_code(report) == 5


def test_exit_codes() -> None:
    state = healthy(watched())
    assert exit_code(views(watched(), state)) == 0
    rival = changed(state, "node-1", role=Role.PRIMARY, follows=None)
    assert exit_code(views(watched(), rival)) == 12
    fenced = changed(
        state, "node-0", settings={**state.nodes[0].settings, FENCE_SETTING: FENCED_VALUE}, good_replicas=2
    )
    assert exit_code(views(watched(), fenced)) == 12, "no node accepts writes"
    fenced_replica = changed(
        state, "node-1", settings={**state.nodes[1].settings, FENCE_SETTING: FENCED_VALUE}, good_replicas=0
    )
    assert exit_code(views(watched(), fenced_replica)) == 11
