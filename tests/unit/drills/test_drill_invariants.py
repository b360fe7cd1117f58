"""Each way in which a drill can prove nothing breaks the one invariant in charge, and makes the run inconclusive."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rlctl.drills.judge.accounts import account
from rlctl.drills.judge.invariants import prove_cut
from rlctl.drills.judge.verdict import DrillVerdict, judge
from rlctl.drills.record.evidence import Evidence, ProbePing
from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.ops import HOT, OpOutcome
from rlctl.drills.scenario.model import ClientLoad, Expectation, Metric
from tests.unit.drill_runs import (
    DEMOTED,
    FORK,
    KILLED,
    LOADED,
    OTHER,
    PROMOTED,
    SHARD,
    STOPPED,
    VICTIM,
    BatchSpec,
    Fate,
    Phase,
    answered,
    batch,
    client,
    event,
    final_of,
    ledger,
    look,
    pings,
    scenario,
    simulate_run,
    with_final,
    without,
)

# Connection 7 does one thing only: before the cut, and long before it.
LOSS = (
    answered("majority", Phase.BEFORE, 4, connection=7),
    answered("majority", Phase.BEFORE, 4),
    answered("majority", Phase.OLD, 4),
    answered("majority", Phase.OLD, 4, hot=True),
    answered("majority", Phase.NEW, 8, hot=True),
    BatchSpec(client="majority", connection=1, phase=Phase.NEW, fates=((Fate.REFUSED, False), (Fate.VANISHED, False))),
)
SPLIT = (
    answered("majority", Phase.BEFORE, 4),
    answered("minority", Phase.BEFORE, 4),
    answered("minority", Phase.OLD, 8, hot=True),
    answered("majority", Phase.NEW, 8, hot=True),
)


def write_loss() -> Evidence:
    return simulate_run(LOSS)[0]


def split_brain() -> Evidence:
    return simulate_run(SPLIT, is_split=True)[0]


def kept(evidence: Evidence) -> Ledger:
    return final_of(evidence)[VICTIM]["majority"]


def and_kept(evidence: Evidence, *ids: int) -> Evidence:
    own = kept(evidence)
    return with_final(evidence, "majority", Ledger(ids=(*own.ids, *ids), admitted=own.admitted))


def and_not_kept(evidence: Evidence, *ids: int) -> Evidence:
    own = kept(evidence)
    left = tuple(one for one in own.ids if one not in ids)
    return with_final(evidence, "majority", ledger(left, [one for one in own.admitted if one in left]))


def outcomes(evidence: Evidence, wanted: OpOutcome) -> list[int]:
    return [
        one.first + place
        for one in evidence.clients[0].batches
        for place, code in enumerate(one.codes)
        if code & 7 == wanted
    ]


def a_hole(evidence: Evidence) -> Evidence:
    lost = [op.id for op in judge(evidence).accounts[0].lost]
    return and_kept(evidence, lost[1])


def a_hole_in_a_batch_half_lost(evidence: Evidence) -> Evidence:
    lost = [op.id for op in judge(evidence).accounts[0].lost]
    return and_kept(evidence, *lost[:2], lost[3])


def a_refused_one_that_survives(evidence: Evidence) -> Evidence:
    return and_kept(evidence, *outcomes(evidence, OpOutcome.REFUSED))


def somebody_elses_id(evidence: Evidence) -> Evidence:
    return and_kept(evidence, 999_999)


def a_replica_that_lacks_one(evidence: Evidence) -> Evidence:
    own = kept(evidence)
    return with_final(evidence, "majority", ledger(own.ids[:-1], own.admitted), nodes=[VICTIM])


def an_order_of_its_own(evidence: Evidence) -> Evidence:
    own = kept(evidence)
    return with_final(evidence, "majority", ledger(own.ids[::-1], own.admitted), nodes=[VICTIM])


def heard_only_after_the_mend(evidence: Evidence) -> Evidence:
    """A cut holds words up; they are answered as soon as it is mended."""
    healed = next(event.at_s for event in evidence.events if event.name in {"mend", "kill"})
    late = (
        replace(one, heard=True, answered_s=healed + 0.1) if one.is_across and not one.heard else one
        for one in evidence.pings
    )
    return replace(evidence, pings=tuple(late))


def heard_across(evidence: Evidence) -> Evidence:
    return replace(evidence, pings=tuple(replace(one, heard=True) for one in evidence.pings))


def silent_beside(evidence: Evidence) -> Evidence:
    changed = (replace(one, heard=one.heard and one.at_s < FORK) for one in evidence.pings)
    return replace(evidence, pings=tuple(changed))


def nobody_beside(evidence: Evidence) -> Evidence:
    return replace(evidence, pings=tuple(one for one in evidence.pings if one.is_across))


def mute_before(evidence: Evidence) -> Evidence:
    changed = (one for one in evidence.pings if one.at_s >= FORK)
    return replace(evidence, pings=tuple(changed))


def one_word_unanswered_before(evidence: Evidence) -> Evidence:
    """A machine that stops for a moment answers a word late."""
    late = next(one for one in evidence.pings if one.name == "inwards" and one.at_s < FORK - 0.1)
    return replace(evidence, pings=tuple(replace(one, heard=one.heard and one != late) for one in evidence.pings))


def one_canary_silent_before(evidence: Evidence) -> Evidence:
    silent = (replace(one, heard=one.heard and one.name != "inwards") for one in evidence.pings)
    return replace(evidence, pings=tuple(silent))


def one_operation_more(evidence: Evidence) -> Evidence:
    return replace(evidence, attempted={name: (count or 0) + 1 for name, count in evidence.attempted.items()})


def a_number_used_twice(evidence: Evidence) -> Evidence:
    first = evidence.clients[0]
    double = replace(first.batches[0], connection=9)
    clients = (replace(first, batches=(*first.batches, double)), *evidence.clients[1:])
    attempted = {**evidence.attempted, "majority": (evidence.attempted["majority"] or 0) + len(double.codes)}
    return replace(evidence, clients=clients, attempted=attempted)


def something_left(evidence: Evidence) -> Evidence:
    left = event("cleaned", STOPPED + 1, residue=["node-0: 1 keys"])
    return replace(evidence, events=(*without(evidence, "cleaned").events, left))


def never_cleaned(evidence: Evidence) -> Evidence:
    return without(evidence, "cleaned")


def not_healed(evidence: Evidence) -> Evidence:
    failed = event("unhealed", STOPPED + 1, text="node-0 does not start")
    return replace(evidence, events=(*without(evidence, "healed").events, failed))


def a_loss_long_before_the_cut(evidence: Evidence) -> Evidence:
    return and_not_kept(evidence, *range(4))


def a_loss_on_the_promoted_node(evidence: Evidence) -> Evidence:
    hot_last = evidence.clients[0].batches[-2]
    return and_not_kept(evidence, hot_last.first + len(hot_last.codes) - 1)


def no_vote(evidence: Evidence) -> Evidence:
    changed = (replace(one, sample=replace(one.sample, epoch=1)) for one in evidence.samples)
    kind = replace(evidence.scenario, kind="sentinel")  # type: ignore[arg-type]
    return replace(evidence, samples=tuple(changed), scenario=kind)


def more_than_the_limit_on_one_branch(evidence: Evidence) -> Evidence:
    first = evidence.clients[0]
    number = evidence.attempted["majority"] or 0
    greedy = batch(number, [OpOutcome.ADMITTED | HOT] * 3, PROMOTED + 1, PROMOTED + 1.001, 1, 5)
    told = replace(
        evidence,
        clients=(replace(first, batches=(*first.batches, greedy)),),
        attempted={"majority": number + 3},
    )
    own = kept(told)
    new = tuple(range(number, number + 3))
    return with_final(told, "majority", ledger((*own.ids, *new), (*own.admitted, *new)))


def told_by_replicas(evidence: Evidence, *links: str) -> Evidence:
    """No canaries, but looks at the replica in the time of the cut, and one from before it that came late."""
    replica = next(node for node in evidence.shard if node != VICTIM)
    others = [one for one in evidence.samples if one.node != replica or not FORK <= one.at_s < KILLED]
    late = look(FORK + 0.15, replica, "slave", asked_s=FORK - 0.01)
    looks = [look(FORK + 0.2 + 0.05 * place, replica, "slave", link=link) for place, link in enumerate(links)]
    samples = sorted([*others, late, *looks], key=lambda one: one.at_s)
    return replace(evidence, samples=tuple(samples), pings=())


def a_replica_that_was_not_cut_off(evidence: Evidence) -> Evidence:
    return told_by_replicas(evidence, "up", "down", "down")


def a_look_from_before_the_cut(evidence: Evidence) -> Evidence:
    return told_by_replicas(evidence, "down", "down", "down")


BREAKS: list[tuple[Callable[[Evidence], Evidence], str]] = [
    (a_hole, "I9"),
    (a_hole_in_a_batch_half_lost, "I9"),
    (a_refused_one_that_survives, "I2"),
    (somebody_elses_id, "I1"),
    (a_replica_that_lacks_one, "I5"),
    (an_order_of_its_own, "I5"),
    (heard_across, "I7"),
    (silent_beside, "I7"),
    (nobody_beside, "I7"),
    (mute_before, "I7"),
    (one_canary_silent_before, "I7"),
    (one_operation_more, "I3"),
    (a_number_used_twice, "I3"),
    (something_left, "I8"),
    (never_cleaned, "I8"),
    (not_healed, "I11"),
    (a_loss_long_before_the_cut, "I6"),
    (a_loss_on_the_promoted_node, "I6"),
    (a_replica_that_was_not_cut_off, "I7"),
    (no_vote, "I10"),
    (more_than_the_limit_on_one_branch, "I6b"),
]


@pytest.mark.parametrize(("change", "code"), BREAKS, ids=[change.__name__ for change, _ in BREAKS])
def test_a_broken_drill_breaks_its_invariant(change: Callable[[Evidence], Evidence], code: str) -> None:
    judged = judge(change(write_loss()))
    assert [check.code for check in judged.checks if not check.ok] == [code]
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert any(reason.startswith(f"{code} ") for reason in judged.reasons)


@pytest.mark.parametrize("change", [heard_only_after_the_mend, one_word_unanswered_before])
def test_words_that_come_late_break_nothing(change: Callable[[Evidence], Evidence]) -> None:
    judged = judge(change(split_brain()))
    assert [check for check in judged.checks if not check.ok] == []


def test_a_look_that_was_asked_for_before_the_cut_breaks_nothing() -> None:
    judged = judge(a_look_from_before_the_cut(write_loss()))
    assert [check for check in judged.checks if not check.ok] == []


@pytest.mark.parametrize("run", [write_loss, split_brain])
def test_the_run_itself_breaks_none(run: Callable[[], Evidence]) -> None:
    judged = judge(run())
    assert [check for check in judged.checks if not check.ok] == []
    assert {check.code for check in judged.checks} == {*(f"I{n}" for n in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11)), "I6b"}


def control(*batch_specs: BatchSpec) -> Evidence:
    made, _truth = simulate_run(batch_specs)
    plain = without(made, "cut", "kill")
    samples = [
        look(one.at_s, one.node, "master" if one.node == VICTIM else "slave") for one in made.samples if one.at_s
    ]
    named = replace(plain.scenario, name="control")
    return replace(plain, scenario=named, samples=tuple(samples), pings=())


def test_a_control_without_findings_passes() -> None:
    judged = judge(control(answered("majority", Phase.BEFORE, 8, hot=True)))
    assert judged.verdict is DrillVerdict.PASS
    assert [check.code for check in judged.checks if check.code in {"I4", "I7", "I10"}] == ["I4"]


@pytest.mark.parametrize("fate", [Fate.UNHEARD, Fate.VANISHED])
def test_a_control_with_missing_answers_proves_nothing(fate: Fate) -> None:
    batch_spec = BatchSpec(client="majority", connection=0, phase=Phase.BEFORE, fates=((fate, False),))
    judged = judge(control(batch_spec))
    assert [check.code for check in judged.checks if not check.ok] == ["I4"]
    assert judged.reasons == ("I4 a run without a fault has no findings: lost 0, over 0, indeterminate 1",)


def test_a_control_that_lost_something_proves_nothing() -> None:
    run = control(answered("majority", Phase.BEFORE, 4))
    judged = judge(and_not_kept(run, 3))
    assert [check.code for check in judged.checks if not check.ok] == ["I6", "I4"]


def test_an_order_needs_no_vote() -> None:
    run = no_vote(write_loss())
    ordered = event("failover", KILLED + 0.1, text="CLUSTER FAILOVER")
    events = tuple(sorted((*run.events, ordered), key=lambda one: one.at_s))
    [check] = [one for one in judge(replace(run, events=events)).checks if one.code == "I10"]
    assert (check.ok, check.evidence) == (True, "ordered: CLUSTER FAILOVER")


def test_a_moved_clock_explains_more_than_the_limit_on_one_branch() -> None:
    run = more_than_the_limit_on_one_branch(write_loss())
    skewed = replace(run, scenario=scenario(load=ClientLoad(limit=5, skew_ms=30_000)))
    judged = judge(skewed)
    assert judged.verdict is DrillVerdict.PASS
    assert judged.admission is not None
    assert judged.admission.by_cause["clock"] == 3


def restarted_empty(*, at_s: float = FORK + 0.1) -> Evidence:
    """Everything from before the restart is gone, everything after it is there, on one node and connection."""
    before = batch(0, [OpOutcome.ADMITTED | HOT] * 4, LOADED + 0.1, LOADED + 0.11)
    after = batch(4, [OpOutcome.ADMITTED | HOT] * 4, at_s + 1, at_s + 1.01)
    kill = event("kill", FORK, None, [VICTIM])
    back = event("restart", at_s, None, [VICTIM])
    plain = control(answered("majority", Phase.BEFORE, 8, hot=True))
    return with_final(
        replace(
            plain,
            scenario=scenario(),
            events=tuple(sorted((*plain.events, kill, back), key=lambda one: one.at_s)),
            clients=(client("majority", before, after),),
        ),
        "majority",
        ledger(range(4, 8)),
    )


def test_a_node_reborn_empty_has_lost_everything_from_before() -> None:
    judged = judge(restarted_empty())
    assert judged.verdict is DrillVerdict.PASS
    assert judged.metrics[Metric.LOST] == 4
    assert judged.admission is not None
    assert judged.admission.by_cause == dict.fromkeys(judged.admission.by_cause, 0) | {"wipe": 3}


@pytest.mark.parametrize("kept_ids", [(2, 4, 5, 6, 7), (4, 6, 7)], ids=["before it was reborn", "after it"])
def test_a_hole_in_what_a_reborn_node_held_is_found(kept_ids: tuple[int, ...]) -> None:
    judged = judge(with_final(restarted_empty(), "majority", ledger(kept_ids)))
    assert [check.code for check in judged.checks if not check.ok] == ["I9"]


def test_zombie_answers_after_the_promotion_are_the_old_branch() -> None:
    run = split_brain()
    late = batch(50, [OpOutcome.ADMITTED], DEMOTED - 0.5, DEMOTED + 0.04, 0, 3)
    others = run.clients[1]
    clients = (run.clients[0], replace(others, batches=(*others.batches, late)))
    told = replace(run, clients=clients, attempted={**run.attempted, "minority": others_count(run) + 1})
    judged = judge(told)
    assert judged.verdict is DrillVerdict.PASS
    assert 50 in judged.accounts[1].lost_ids


def others_count(evidence: Evidence) -> int:
    return evidence.attempted["minority"] or 0


def test_what_a_primary_without_heir_acknowledges_up_to_the_end_is_its_branch() -> None:
    """Behind Sentinel a run can stop while the old primary still takes writes; clients end a little later."""
    run = split_brain()
    kind = replace(run.scenario, kind="sentinel")  # type: ignore[arg-type]
    stays = tuple(look(one.at_s, VICTIM, "master") if one.node == VICTIM else one for one in run.samples)
    back = (*stays, look(STOPPED + 0.5, VICTIM, "slave", 2))
    others = run.clients[1]
    late = batch(50, [OpOutcome.ADMITTED], STOPPED + 0.1, STOPPED + 0.2, 0, 3)
    told = replace(
        run,
        scenario=kind,
        samples=back,
        clients=(run.clients[0], replace(others, batches=(*others.batches, late))),
        attempted={**run.attempted, "minority": others_count(run) + 1},
    )
    assert judge(told).verdict is DrillVerdict.PASS
    healed = tuple(one for one in run.samples if one.node == VICTIM or one.at_s < PROMOTED)
    judged = judge(replace(told, samples=(*healed, look(STOPPED + 0.3, OTHER, "master", 2), *back[-1:])))
    assert judged.times.promoted_s is None
    assert [check.code for check in judged.checks if not check.ok] == []


def test_only_whole_final_ledgers_are_compared() -> None:
    run = split_brain()
    final = {node: {"majority": books["majority"]} for node, books in final_of(run).items()}
    judged = judge(replace(run, ledgers={**run.ledgers, "final": final}))
    [check] = [one for one in judged.checks if one.code == "I5"]
    assert (check.ok, check.evidence) == (False, "no complete final ledger of node-0, node-3")
    assert judged.metrics[Metric.LOST] is None


def test_the_client_of_other_shards_has_its_ledger_there() -> None:
    run = write_loss()
    others = client("others", batch(0, [OpOutcome.ADMITTED | HOT] * 5, LOADED + 1, LOADED + 1.01))
    told = replace(
        run,
        clients=(*run.clients, others),
        places={**run.places, "others": ("node-2",)},
        attempted={**run.attempted, "others": 5},
        ledgers={**run.ledgers, "final": {**final_of(run), "node-2": {"others": ledger(range(5))}}},
    )
    plain, judged = judge(run), judge(told)
    assert judged.verdict is DrillVerdict.PASS
    assert judged.metrics[Metric.LOST] == plain.metrics[Metric.LOST]
    assert judged.admission == plain.admission
    assert judged.metrics[Metric.OTHERS_REFUSED] == 0


@pytest.mark.parametrize("roles", [("slave", "slave"), ("master", "master")], ids=["no primary", "two primaries"])
def test_without_one_primary_nothing_is_known_of_losses(roles: tuple[str, str]) -> None:
    run = write_loss()
    ends = tuple(look(STOPPED + 2, node, role, 2) for node, role in zip(SHARD, roles, strict=True))
    judged = judge(replace(run, samples=(*run.samples, *ends)))
    assert judged.metrics[Metric.LOST] is None
    assert judged.admission is None
    assert not judged.accounts[0].is_measured


def killed_run() -> Evidence:
    """rlctl was killed while the cut was in force: histories, a journal that breaks off, and nothing else."""
    run = write_loss()
    return replace(
        run,
        events=tuple(one for one in run.events if one.at_s <= FORK),
        samples=tuple(one for one in run.samples if one.at_s < KILLED),
        pings=tuple(one for one in run.pings if one.at_s < KILLED),
        attempted={"majority": None},
        ledgers={"doomed": {}, "final": {}},
    )


def test_a_killed_run_is_inconclusive_and_says_so_first() -> None:
    judged = judge(killed_run())
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert judged.reasons[0] == "the run was killed after `cut`"
    assert {check.code for check in judged.checks if not check.ok} == {"I3", "I5", "I8", "I11"}


def test_a_run_that_failed_while_it_tidied_up_is_inconclusive_and_says_why() -> None:
    run = write_loss()
    failed = event("failed", 19.05, code="partly-done", message="node-1: cannot remove its folder", hint="")
    judged = judge(replace(run, events=(*run.events[:-1], failed)))
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert judged.reasons == ("the run failed: node-1: cannot remove its folder",)


def test_of_a_killed_run_the_losses_are_unknown_and_not_none() -> None:
    metrics = judge(killed_run()).metrics
    unknown = [Metric.LOST, Metric.LOST_LOCAL, Metric.LOST_SHARE, Metric.LOST_SPAN, Metric.LOST_SPAN_OFF]
    unknown += [Metric.LOST_AFTER, Metric.RECOVERED, Metric.OVER, Metric.UNDER, Metric.RATIO, Metric.NOSCRIPT]
    assert {metric: metrics[metric] for metric in unknown} == dict.fromkeys(unknown)
    assert metrics[Metric.ACKED] == 4 + 4 + 4 + 4 + 8


def test_a_run_of_which_nothing_is_written_down() -> None:
    nothing = replace(killed_run(), events=(), samples=(), pings=(), clients=(), attempted={}, shard=())
    judged = judge(nothing)
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert judged.reasons[0] == "the run was killed after `nothing`"
    [agree] = [check for check in judged.checks if check.code == "I5"]
    assert (agree.ok, agree.evidence) == (False, "no complete final ledger of any node")


def test_a_machine_that_stalled_proves_nothing() -> None:
    run = write_loss()
    judged = judge(replace(run, samples=tuple(one for one in run.samples if not 10.5 < one.at_s < 11.9)))
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert [check for check in judged.checks if not check.ok] == []
    assert judged.reasons == ("the machine stalled: no sample for 1600 ms",)


@pytest.mark.parametrize("since_s", [0.0, 10.5], ids=["from the start", "in the middle"])
def test_a_run_in_which_no_node_answered_for_a_second_proves_nothing(since_s: float) -> None:
    """Looks that time out on a machine that is too busy see no promotion either."""
    run = write_loss()
    samples = (
        replace(one, sample=replace(one.sample, alive=False)) if since_s < one.at_s < 11.9 else one
        for one in run.samples
    )
    judged = judge(replace(run, samples=tuple(samples)))
    assert judged.verdict is DrillVerdict.INCONCLUSIVE
    assert judged.reasons[-1].startswith("the machine stalled: no sample for ")


@pytest.mark.parametrize(
    ("bounds", "verdict", "reason"),
    [
        pytest.param({"least": 8, "most": 8}, DrillVerdict.PASS, "lost 8, expected 8", id="exactly"),
        pytest.param({"least": 9}, DrillVerdict.FAIL, "lost 8, expected at least 9", id="too few"),
        pytest.param({"most": 7.5}, DrillVerdict.FAIL, "lost 8, expected at most 7.5", id="too many"),
        pytest.param({"least": 1, "most": 7}, DrillVerdict.FAIL, "lost 8, expected 1 to 7", id="outside"),
    ],
)
def test_an_expectation_decides(bounds: dict[str, float], verdict: DrillVerdict, reason: str) -> None:
    run = write_loss()
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.LOST, **bounds),))
    judged = judge(replace(run, scenario=wanted))
    assert (judged.verdict, judged.reasons) == (verdict, (reason,))


@pytest.mark.parametrize(
    ("asked_again", "bounds", "verdict"),
    [
        pytest.param(3, {"least": 1.9}, DrillVerdict.INCONCLUSIVE, id="asked too little"),
        pytest.param(3, {"most": 1.5}, DrillVerdict.FAIL, id="too many all the same"),
        pytest.param(7, {"least": 2.5}, DrillVerdict.FAIL, id="refused on both sides"),
        pytest.param(7, {"least": 1.9}, DrillVerdict.PASS, id="given out twice"),
    ],
)
def test_who_asks_too_little_proves_nothing_about_what_is_given_out(
    asked_again: int, bounds: dict[str, float], verdict: DrillVerdict
) -> None:
    sides = (answered("minority", Phase.OLD, 8, hot=True), answered("majority", Phase.NEW, asked_again, hot=True))
    run, _truth = simulate_run(sides, is_split=True)
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.RATIO, **bounds),))
    judged = judge(replace(run, scenario=wanted))
    assert judged.verdict is verdict
    is_told = f"the load was too low: the hot user never used the limit up on {OTHER}" in judged.reasons
    assert is_told == (verdict is DrillVerdict.INCONCLUSIVE)


def test_where_nobody_knows_the_node_none_is_named() -> None:
    run, _truth = simulate_run((answered("majority", Phase.NEW, 3, hot=True),))
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.RATIO, least=1),))
    reasons = judge(replace(run, scenario=wanted, places={})).reasons
    assert "the load was too low: the hot user never used the limit up" in reasons


def test_what_was_not_measured_is_not_as_expected() -> None:
    run = write_loss()
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.STALE_ACKED, most=0),))
    judged = judge(replace(run, scenario=wanted))
    assert (judged.verdict, judged.reasons) == (DrillVerdict.FAIL, ("stale_acked not measured, expected at most 0",))


def test_a_broken_drill_outranks_an_unexpected_outcome() -> None:
    run = somebody_elses_id(write_loss())
    wanted = replace(run.scenario, expectations=(Expectation(metric=Metric.LOST, most=0),))
    assert judge(replace(run, scenario=wanted)).verdict is DrillVerdict.INCONCLUSIVE


def test_a_blown_budget_outranks_everything() -> None:
    run = somebody_elses_id(write_loss())
    judged = judge(replace(run, events=(*run.events, event("budget", STOPPED, text="too long"))))
    assert judged.verdict is DrillVerdict.FAIL
    assert judged.reasons[0] == "too long"
    assert judged.reasons[1].startswith("I1 ")


def test_a_run_that_failed_after_it_was_cleaned_keeps_its_verdict() -> None:
    assert judge(without(write_loss(), "ended")).verdict is DrillVerdict.PASS


@pytest.mark.parametrize(
    ("length_s", "across_s", "verified"),
    [
        pytest.param(0.1, [], None, id="short, no word in it"),
        pytest.param(0.1, [FORK + 0.05], True, id="short, and a word in it"),
        pytest.param(0.5, [], False, id="long, no word in it"),
        pytest.param(0.5, [FORK + 0.05], True, id="long, and a word in it"),
    ],
)
def test_a_cut_is_proven_by_words_in_it(length_s: float, across_s: list[float], *, verified: bool | None) -> None:
    words = [one for one in pings(is_split=False) if one.at_s < FORK or not one.is_across]
    words += [ProbePing(at_s=one, name="inwards", is_across=True, heard=False) for one in across_s]
    words += [ProbePing(at_s=FORK + 0.06, name="beside", is_across=False, heard=True)]
    run = replace(write_loss(), pings=tuple(words))
    events = tuple(
        event("kill", FORK + 0.01 + length_s, None, [VICTIM]) if one.name == "kill" else one for one in run.events
    )
    cut = prove_cut(replace(run, events=events))
    assert (cut.verified, cut.cut_ms) == (verified, length_s * 1000)


@pytest.mark.parametrize("end", ["mend", "kill", "pause", "heal"])
def test_a_cut_ends_when_its_canaries_can_tell_no_more(end: str) -> None:
    run = without(write_loss(), "kill", "heal")
    events = tuple(sorted((*run.events, event(end, FORK + 0.51, None, [VICTIM])), key=lambda one: one.at_s))
    assert prove_cut(replace(run, events=events)).cut_ms == 500.0


def test_a_cut_that_nothing_ended_lasts_as_long_as_the_load() -> None:
    assert prove_cut(without(write_loss(), "kill", "heal")).cut_ms == (STOPPED - FORK - 0.01) * 1000


def test_an_unmeasured_account_has_lost_nothing_that_is_known() -> None:
    history = client("majority", batch(0, [OpOutcome.ADMITTED], 1.0, 1.1))
    found = account(history, SHARD, None)
    assert (found.is_measured, found.lost, found.unexpected) == (False, (), frozenset())


def test_operations_that_went_nowhere_have_no_node() -> None:
    history = client("majority", batch(0, [OpOutcome.REFUSED | HOT], 1.0, 1.1, node=255))
    assert [op.node for op in account(history, (VICTIM, OTHER), ledger(())).hot] == [""]


@pytest.mark.parametrize(
    ("span_s", "off_ms"),
    [
        pytest.param(0.99, 0.0, id="as long as the lag, from the cut's end"),
        pytest.param(1.0, 0.0, id="as long as the lag, from the cut's begin"),
        pytest.param(1.1, 100.0, id="longer"),
        pytest.param(0.89, 100.0, id="shorter"),
    ],
)
def test_how_far_a_loss_is_from_the_lag_that_was_injected(span_s: float, off_ms: float) -> None:
    first, last = FORK + 0.005, FORK + 0.005 + span_s
    lost = client("majority", *(batch(n, [OpOutcome.ADMITTED], at_s, at_s) for n, at_s in enumerate((first, last))))
    run = with_final(replace(write_loss(), clients=(lost,)), "majority", ledger(()))
    assert judge(run).metrics[Metric.LOST_SPAN_OFF] == off_ms


def test_one_missing_ledger_leaves_no_word_about_losses() -> None:
    run = split_brain()
    final = {node: {"majority": books["majority"]} for node, books in final_of(run).items()}
    codes = {check.code for check in judge(replace(run, ledgers={**run.ledgers, "final": final})).checks}
    assert "I3" in codes
    assert not codes & {"I1", "I2", "I6", "I9"}


def test_only_its_end_ends_a_cut() -> None:
    run = write_loss()
    burst = event("burst", FORK + 0.1)
    events = tuple(sorted((*run.events, burst), key=lambda one: one.at_s))
    assert prove_cut(replace(run, events=events)) == prove_cut(run)


def test_what_another_node_suffered_is_not_the_victims() -> None:
    events = (event("restart", 1.0, None, [OTHER]), event("kill", 2.0, None, [VICTIM]))
    run = replace(write_loss(), events=(*events, event("restart", 3.0, None, [VICTIM])))
    assert run.on_victim("restart") == run.events[-1]
    assert replace(run, events=events).on_victim("restart") is None
