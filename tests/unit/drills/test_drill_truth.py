"""Made-up runs whose truth is known: the judge finds exactly their numbers."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rlctl.drills.judge.result import run_json, series
from rlctl.drills.judge.verdict import DrillVerdict, Judged, judge, totals
from rlctl.drills.record.evidence import Evidence
from tests.unit.drill_runs import BatchSpec, Fate, Phase, Truth, simulate_run

FATES = st.lists(st.tuples(st.sampled_from(Fate), st.booleans()), min_size=1, max_size=6).map(tuple)
LIMITS = st.integers(min_value=1, max_value=8)


def batch_specs(*, is_split: bool) -> st.SearchStrategy[list[BatchSpec]]:
    """Batches of clients that are where they can be: cut off, only the minority reaches the old primary."""
    places = [("majority", Phase.BEFORE), ("majority", Phase.NEW)]
    places += [("minority", Phase.BEFORE), ("minority", Phase.OLD)] if is_split else [("majority", Phase.OLD)]
    one = st.builds(
        lambda place, connection, fates, is_waited: BatchSpec(
            client=place[0], connection=connection, phase=place[1], fates=fates, is_waited=is_waited
        ),
        st.sampled_from(places),
        st.integers(min_value=0, max_value=2),
        FATES,
        st.booleans(),
    )
    return st.lists(one, max_size=14)


def runs(wait: int = 0) -> st.SearchStrategy[tuple[Evidence, Truth]]:
    return st.booleans().flatmap(
        lambda is_split: st.builds(
            lambda told, limit: simulate_run(told, limit, is_split=is_split, wait=wait),
            batch_specs(is_split=is_split),
            LIMITS,
        )
    )


@settings(deadline=None)
@given(runs())
def test_books_are_those_of_the_made_up_run(run: tuple[Evidence, Truth]) -> None:
    evidence, truth = run
    books = totals(evidence, judge(evidence).accounts)
    assert books == {
        "attempted": truth.classes.total(),
        "acked": truth.classes["acked"],
        "refused": truth.classes["refused"],
        "indeterminate": truth.classes["indeterminate"],
        "not_sent": truth.classes["not_sent"],
        "survived": truth.classes["acked"] - truth.lost,
        "lost": truth.lost,
        "acked_local": truth.classes["acked"],
        "survived_local": truth.classes["acked"] - truth.lost,
        "lost_local": truth.lost,
        "recovered": truth.recovered,
        "duplicated": truth.duplicated,
        "unexpected": 0,
    }


@settings(deadline=None)
@given(runs(wait=1))
def test_with_wait_the_books_are_its_ledgers(run: tuple[Evidence, Truth]) -> None:
    evidence, truth = run
    books = totals(evidence, judge(evidence).accounts)
    unconfirmed = truth.classes["acked"] - truth.waited
    assert (books["acked"], books["lost"]) == (truth.waited, truth.lost_waited)
    assert (books["acked_local"], books["lost_local"]) == (truth.classes["acked"], truth.lost)
    assert books["survived"] == truth.waited - truth.lost_waited
    assert books["indeterminate"] == truth.classes["indeterminate"] + unconfirmed
    assert books["recovered"] == truth.recovered + truth.kept_unconfirmed
    classes = ("acked", "refused", "indeterminate", "not_sent")
    assert books["attempted"] == sum(books[name] or 0 for name in classes)


@settings(deadline=None)
@given(runs(wait=1))
def test_what_is_in_the_ledger_is_accounted_for(run: tuple[Evidence, Truth]) -> None:
    evidence, _truth = run
    judged = judge(evidence)
    books = totals(evidence, judged.accounts)
    present = sum(len(set(account.survivors.ids)) for account in judged.accounts)
    assert present == (books["survived"] or 0) + (books["recovered"] or 0)


@settings(deadline=None)
@given(runs())
def test_admission_is_joined_with_what_was_lost(run: tuple[Evidence, Truth]) -> None:
    evidence, truth = run
    found = judge(evidence).admission
    if not truth.has_hot:
        assert found is None
        return
    assert found is not None
    assert (found.admitted, found.over, found.under) == (truth.admitted, truth.over, truth.phantoms)
    assert found.ratio == round(truth.admitted / truth.limit, 3)
    assert found.potential == truth.lost_admits_before + truth.lost_admits_after
    reset = min(truth.over, truth.lost_admits_before)
    assert found.by_cause == dict.fromkeys(found.by_cause, 0) | {"reset": reset, "dual": truth.over - reset}


@settings(deadline=None)
@given(runs())
def test_a_run_in_which_all_is_explained_passes(run: tuple[Evidence, Truth]) -> None:
    judged = judge(run[0])
    assert [check for check in judged.checks if not check.ok] == []
    assert judged.verdict is DrillVerdict.PASS


@settings(deadline=None)
@given(runs())
def test_result_says_the_same_as_the_judge(run: tuple[Evidence, Truth]) -> None:
    evidence, truth = run
    judged = judge(evidence)
    document = run_json(judged, {"id": "r"})
    assert document["lost"] == truth.lost
    assert document["doomed"]["count"] == truth.lost  # type: ignore[index]
    lost_in_plot = sum(series(judged)["lost"])  # type: ignore[arg-type]
    assert lost_in_plot == truth.lost
    assert _acked_in_plots(judged) == truth.classes["acked"]


def _acked_in_plots(judged: Judged) -> int:
    rates: dict[str, dict[str, list[int]]] = series(judged)["rates"]  # type: ignore[assignment]
    return sum(sum(one["acked"]) for one in rates.values())
