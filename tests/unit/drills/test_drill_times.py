"""Hand-written timelines and the exact times that they hold; what did not happen is None."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from rlctl.drills.judge.times import Times, longest_gap_ms, promotions, sampler_gap_ms, times
from rlctl.drills.judge.verdict import judge
from rlctl.drills.record.evidence import Event, Evidence, TimedSample
from rlctl.drills.record.ops import Batch, OpOutcome
from rlctl.drills.scenario.model import Metric
from rlctl.topology.model import Kind
from tests.unit.drill_runs import OTHER, SHARD, VICTIM, batch, client, event, look, scenario

ACK, NO = [OpOutcome.ADMITTED], [OpOutcome.REFUSED]
NOTHING: dict[str, float | None] = dict.fromkeys(("detect", "elect", "serve", "divergence", "overlap", "converge"))
AT_REST = (look(0.0, VICTIM, "master"), look(0.0, OTHER, "slave"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A timeline; batches are (sent, done, node index, codes) by client."""

    events: Sequence[Event] = ()
    looks: Sequence[TimedSample] = ()
    majority: Sequence[tuple[float, float, int, list[int]]] = ()
    minority: Sequence[tuple[float, float, int, list[int]]] = ()
    kind: Kind = Kind.CLUSTER
    stopped_s: float = 20.0

    def evidence(self) -> Evidence:
        clients = [client("majority", *_batches(self.majority)), client("minority", *_batches(self.minority))]
        events = [event("loaded", 1.0), *self.events, event("stopping", self.stopped_s)]
        return Evidence(
            scenario=scenario(kind=self.kind),
            victim=VICTIM,
            shard=SHARD,
            method="",
            events=tuple(sorted(events, key=lambda one: one.at_s)),
            samples=tuple(sorted((*AT_REST, *self.looks), key=lambda one: one.at_s)),
            pings=(),
            clients=tuple(clients),
            attempted={},
            ledgers={},
            places={"majority": SHARD, "minority": (VICTIM,)},
        )


def _batches(told: Sequence[tuple[float, float, int, list[int]]]) -> list[Batch]:
    return [batch(place, codes, sent_s, done_s, node) for place, (sent_s, done_s, node, codes) in enumerate(told)]


def kill(at_s: float, node: str = VICTIM) -> Event:
    return event("kill", at_s, at_s, [node])


def cut(at_s: float, flow: str, node: str = VICTIM) -> Event:
    return event("cut", at_s, at_s + 0.1, [node], flow=flow)


def witness(at_s: float, **facts: object) -> TimedSample:
    return look(at_s, "node-1", "master", 3, **facts)


CRASH = Line(
    events=[kill(5.0), event("heal", 20.0), event("healed", 24.0)],
    looks=[
        *(
            look(5.04, VICTIM, ""),
            witness(6.5, suspects=True),
            witness(7.0, condemns=True),
            look(7.75, OTHER, "master", 4),
        ),
        *(look(22.0, VICTIM, "slave", 4, link="down"), look(23.0, VICTIM, "slave", 4)),
    ],
    majority=[(4.98, 4.999, 0, ACK), (5.5, 6.5, 0, [OpOutcome.INDETERMINATE]), (7.9, 8.0, 1, ACK)],
)
BY_OTHER = [replace(one, sample=replace(one.sample, epoch=one.sample.epoch + 1)) for one in CRASH.looks]
WRITE_LOSS = replace(
    CRASH,
    events=[cut(4.0, "replication", OTHER), *CRASH.events],
    majority=[(3.9, 4.05, 0, ACK), (4.9, 4.95, 0, ACK), (8.1, 8.25, 1, ACK)],
)
SENTINEL_SPLIT = Line(
    kind=Kind.SENTINEL,
    events=[cut(5.0, "everything"), event("mend", 10.0, 10.01), event("heal", 20.0), event("healed", 20.1)],
    looks=[
        look(6.5, "sentinel-1", "sentinel", 1, suspects=True),
        look(7.0, "sentinel-1", "sentinel", 1, condemns=True),
        *(look(7.5, OTHER, "master", 0), look(10.0, VICTIM, "master", 0)),
        *(look(12.0, VICTIM, "slave", 0, link="down"), look(12.5, VICTIM, "slave", 0)),
    ],
    majority=[(4.9, 4.95, 0, ACK), (7.9, 8.0, 1, ACK)],
    minority=[(4.9, 4.95, 0, ACK), (9.0, 9.1, 0, ACK), (11.9, 12.03, 0, ACK), (12.1, 12.2, 0, NO)],
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(Line(), NOTHING, id="nothing happened"),
        pytest.param(
            CRASH,
            {"detect": 2000.0, "elect": 750.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="killed victim: nothing acknowledged after it",
        ),
        pytest.param(
            replace(CRASH, majority=[*CRASH.majority[:2], (7.8, 7.9, 1, NO), CRASH.majority[2]]),
            {"detect": 2000.0, "elect": 750.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="killed victim: what its successor refuses is not served",
        ),
        pytest.param(
            replace(CRASH, looks=[look(3.0, OTHER, "master", 4), look(4.0, OTHER, "slave", 4), *BY_OTHER]),
            {"detect": 2000.0, "elect": 750.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="killed victim: a promotion before that is none of it",
        ),
        pytest.param(
            replace(CRASH, looks=[witness(5.0, condemns=True), *CRASH.looks[3:]]),
            {"detect": 0.0, "elect": 2750.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="killed victim: condemned in the moment of its death",
        ),
        pytest.param(
            WRITE_LOSS,
            {
                "detect": 2000.0,
                "elect": 750.0,
                "serve": 3250.0,
                "divergence": 950.0,
                "overlap": 0.0,
                "converge": 3000.0,
            },
            id="cut, then kill: divergence counts from the cut, detection from the kill",
        ),
        pytest.param(
            SENTINEL_SPLIT,
            {
                "detect": 1900.0,
                "elect": 500.0,
                "serve": 2900.0,
                "divergence": 7030.0,
                "overlap": 4530.0,
                "converge": 2490.0,
            },
            id="isolated victim behind Sentinel: both sides acknowledge",
        ),
        pytest.param(
            replace(SENTINEL_SPLIT, minority=[(5.9, 6.1, 0, ACK)]),
            {
                "detect": 1900.0,
                "elect": 500.0,
                "serve": 2900.0,
                "divergence": 1100.0,
                "overlap": 0.0,
                "converge": 2490.0,
            },
            id="isolated victim that stopped before the others served",
        ),
        pytest.param(
            replace(CRASH, looks=[*CRASH.looks[:2], witness(7.79, condemns=True), *CRASH.looks[3:]]),
            {"detect": 2750.0, "elect": 0.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="the promotion was seen before the verdict",
        ),
        pytest.param(
            replace(CRASH, looks=[one for one in CRASH.looks if not one.sample.condemns]),
            {"detect": None, "elect": None, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="the verdict was not seen",
        ),
        pytest.param(
            replace(CRASH, looks=CRASH.looks[:4]),
            {"detect": 2000.0, "elect": 750.0, "serve": 3000.0, "divergence": 0.0, "overlap": 0.0, "converge": None},
            id="never one again",
        ),
        pytest.param(
            replace(CRASH, majority=CRASH.majority[:2]),
            {"detect": 2000.0, "elect": 750.0, "serve": None, "divergence": 0.0, "overlap": 0.0, "converge": 3000.0},
            id="promoted, and nobody was served",
        ),
    ],
)
def test_times(line: Line, found: dict[str, float | None]) -> None:
    assert times(line.evidence()).to_json() == found


def test_an_old_branch_on_which_nothing_followed_ended_at_the_fork() -> None:
    assert times(CRASH.evidence()).stopped_s == 5.0


def test_what_the_victim_acknowledges_after_its_demotion_is_another_branch() -> None:
    back = [look(6.0, VICTIM, "master", 5), look(6.05, OTHER, "slave", 5)]
    again = replace(PLANNED, looks=[*PLANNED.looks, *back], majority=[*PLANNED.majority, (7.0, 7.1, 0, ACK)])
    assert times(again.evidence()).stopped_s == 5.12


def test_killed_and_nobody_took_over() -> None:
    line = replace(CRASH, looks=[CRASH.looks[0], *CRASH.looks[4:]], majority=CRASH.majority[:2])
    found = times(line.evidence())
    assert found.to_json() == {**NOTHING, "converge": None}
    assert (found.fault_s, found.promoted_s, found.demoted_s, found.stopped_s) == (5.0, None, None, None)


PLANNED = Line(
    events=[event("failover", 5.0, 5.01, [OTHER], how="planned"), event("heal", 20.0), event("healed", 20.1)],
    looks=[look(5.3, OTHER, "master", 4), look(5.35, VICTIM, "slave", 4)],
    majority=[(5.1, 5.12, 0, ACK), (5.4, 5.5, 1, ACK)],
)


def test_an_ordered_failover_is_neither_detected_nor_elected() -> None:
    assert times(PLANNED.evidence()).to_json() == {
        "detect": None,
        "elect": None,
        "serve": 490.0,
        "divergence": 120.0,
        "overlap": 0.0,
        "converge": 0.0,
    }


def test_a_takeover_before_the_verdict_is_no_election() -> None:
    taken = Line(
        events=[cut(5.0, "everything"), event("failover", 5.5, 5.6, [OTHER], how="takeover"), event("mend", 9.0)],
        looks=[look(5.55, OTHER, "master", 4), witness(7.1, condemns=True), look(9.5, VICTIM, "slave", 4)],
        majority=[(5.7, 5.8, 1, ACK)],
        minority=[(6.0, 6.05, 0, ACK)],
    )
    found = times(taken.evidence())
    assert found.to_json() == {
        "detect": 2000.0,
        "elect": None,
        "serve": 700.0,
        "divergence": 1050.0,
        "overlap": 500.0,
        "converge": 500.0,
    }
    assert found.suspected_s == 7.1


def test_what_ends_the_reign_first_is_the_fault() -> None:
    """A rolling restart kills the old primary after the failover that was ordered."""
    line = replace(PLANNED, events=[*PLANNED.events, kill(6.0)], looks=[*PLANNED.looks, look(6.04, VICTIM, "")])
    found = times(line.evidence())
    assert (found.fork_s, found.fault_s, found.promoted_s) == (5.0, 5.01, 5.3)


def test_a_fault_of_somebody_else_forks_nothing() -> None:
    line = Line(events=[cut(5.0, "everything", OTHER)], majority=[(5.9, 6.0, 0, ACK)])
    found = times(line.evidence())
    assert (found.fork_s, found.fault_s, found.served_s, found.stopped_s) == (None, 5.1, None, None)


@pytest.mark.parametrize(
    ("kind", "looks", "count"),
    [
        pytest.param(Kind.CLUSTER, [], 0, id="none"),
        pytest.param(Kind.CLUSTER, [look(5.0, OTHER, "master", 2)], 1, id="a new epoch"),
        pytest.param(Kind.SENTINEL, [look(5.0, OTHER, "master", 0)], 1, id="behind Sentinel nodes have no epoch"),
        pytest.param(Kind.CLUSTER, [look(5.0, OTHER, ""), look(6.0, OTHER, "master", 2)], 1, id="silent in between"),
        pytest.param(
            Kind.CLUSTER,
            [look(5.0, OTHER, ""), look(6.0, OTHER, "master", 0), look(6.2, OTHER, "slave", 1)],
            0,
            id="a replica that restarts says master until it has loaded",
        ),
        pytest.param(
            Kind.CLUSTER,
            [look(5.0, OTHER, "master", 2), look(6.0, OTHER, "slave", 3), look(7.0, OTHER, "master", 4)],
            2,
            id="twice",
        ),
        pytest.param(
            Kind.CLUSTER,
            [look(5.0, OTHER, "master", 2), look(5.1, VICTIM, "slave", 2), look(7.0, VICTIM, "master", 3)],
            2,
            id="and back",
        ),
        pytest.param(Kind.CLUSTER, [look(5.0, "node-4", "slave"), look(6.0, "node-4", "master", 9)], 0, id="elsewhere"),
        pytest.param(Kind.CLUSTER, [look(20.5, OTHER, "master", 2)], 0, id="by the heal"),
    ],
)
def test_promotions(kind: Kind, looks: list[TimedSample], count: int) -> None:
    evidence = Line(kind=kind, looks=looks, events=[kill(4.0)]).evidence()
    assert promotions(evidence) == count
    assert (times(evidence).promoted_s is None) == (count == 0)


def test_the_victims_own_return_is_not_the_promotion() -> None:
    looks = [look(5.0, OTHER, "master", 2), look(5.1, VICTIM, "slave", 2), look(7.0, VICTIM, "master", 3)]
    assert times(Line(looks=looks).evidence()).promoted_s == 5.0


@pytest.mark.parametrize(
    ("looks", "converged_s"),
    [
        pytest.param([], 10.0, id="never broken: at the heal"),
        pytest.param([look(9.0, VICTIM, ""), look(12.0, VICTIM, "master")], 12.0, id="back"),
        pytest.param([look(11.0, OTHER, "slave", link="down")], None, id="never linked again"),
        pytest.param([look(11.0, OTHER, ""), look(12.0, OTHER, "slave")], 12.0, id="broken again by the heal"),
        pytest.param(
            [look(9.0, VICTIM, ""), look(9.5, VICTIM, "slave"), look(11.0, OTHER, "master", 2)],
            11.0,
            id="no primary for a while",
        ),
        pytest.param([look(9.0, OTHER, "master", 2), look(12.0, VICTIM, "slave")], 12.0, id="two primaries"),
        pytest.param([look(11.0, "node-1", "")], 10.0, id="another shard's node"),
    ],
)
def test_converged_for_good(looks: list[TimedSample], converged_s: float | None) -> None:
    line = Line(looks=looks, events=[kill(8.0), event("heal", 10.0)])
    assert times(line.evidence()).converged_s == converged_s


def test_before_every_node_was_seen_nothing_is_whole() -> None:
    run = replace(Line(events=[event("heal", 0.0)]).evidence(), samples=(look(0.5, VICTIM, "master"),))
    assert times(run).converged_s is None


@pytest.mark.parametrize(
    ("acked_s", "gap_ms"),
    [
        pytest.param([], None, id="never"),
        pytest.param([0.5, 20.5], None, id="only outside the load"),
        pytest.param([2.0, 19.0], 17_000.0, id="in the middle"),
        pytest.param([16.0, 17.0], 15_000.0, id="at the start"),
        pytest.param([3.0, 2.0], 17_000.0, id="at the end, in any order"),
        pytest.param([1.0, 20.0], 19_000.0, id="the edges themselves"),
    ],
)
def test_longest_gap(acked_s: list[float], gap_ms: float | None) -> None:
    history = client("majority", *(batch(0, ACK, one - 0.01, one) for one in acked_s))
    assert longest_gap_ms(history, 1.0, 20.0) == gap_ms


def test_a_gap_is_ended_by_one_acknowledgement_and_not_by_refusals() -> None:
    mixed = batch(0, [OpOutcome.REFUSED, OpOutcome.DENIED], 9.9, 10.0)
    refused = batch(2, NO, 14.9, 15.0)
    assert longest_gap_ms(client("majority", mixed, refused), 1.0, 20.0) == 10_000.0


@pytest.mark.parametrize(
    ("looks", "gap_ms"),
    [
        pytest.param([look(0.3, VICTIM, "master"), look(0.4, OTHER, "slave")], 400.0, id="the longest"),
        pytest.param([look(9.0, VICTIM, "")], 0.0, id="a node that does not answer"),
        pytest.param([look(9.0, VICTIM, ""), look(9.3, VICTIM, "master")], 300.0, id="back again"),
    ],
)
def test_sampler_gap(looks: list[TimedSample], gap_ms: float) -> None:
    assert sampler_gap_ms(Line(looks=looks).evidence()) == gap_ms


def test_the_lag_that_was_injected_is_the_one_measured() -> None:
    metrics = judge(WRITE_LOSS.evidence()).metrics
    assert metrics[Metric.LOST_SPAN_OFF] is None
    assert (metrics[Metric.DIVERGENCE], metrics[Metric.GAP]) == (950.0, 11_750.0)


def test_a_load_that_never_began_starts_with_the_first_event() -> None:
    run = replace(Line(events=[event("begin", 0.5)]).evidence())
    bare = replace(run, events=(event("begin", 0.5),), samples=(look(3.0, VICTIM, "master"),))
    assert (bare.started_s, bare.stopped_s) == (0.5, 3.0)
    empty = replace(run, events=(), samples=())
    assert (empty.started_s, empty.stopped_s) == (0.0, 0.0)


def test_what_is_unknown_is_null() -> None:
    unknown = Times(**dict.fromkeys(Times.__slots__))
    assert unknown.to_json() == NOTHING
