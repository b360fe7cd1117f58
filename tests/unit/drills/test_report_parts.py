"""What a report is made of: words for everything, figures as people write them, lines, labels, spans."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.drills.judge.admission import CAUSES
from rlctl.drills.report import values, words
from rlctl.drills.report.labels import TimelineLabel, reach_ms, rows
from rlctl.drills.report.slope import fitted
from rlctl.drills.report.spans import faults, lane, timeline_labels
from rlctl.drills.report.targets import targets
from rlctl.drills.scenario.model import Metric, Side
from tests.unit.drill_documents import changed, recorded


def test_everything_has_words() -> None:
    assert set(words.METRICS) == set(Metric)
    assert set(words.CAUSES) == set(CAUSES)
    assert set(words.SIDES) == set(Side)


@pytest.mark.parametrize(
    ("low", "high", "metric", "text"),
    [
        (1.0, None, "lost", "at least 1"),
        (None, 30_000.0, "serve_ms", "at most 30,000 ms"),
        (1.9, 2.0, "ratio", "1.9 to 2 times"),
        (1.0, 1.0, "promotions", "1"),
        (None, 5.0, "lost_percent", "at most 5 %"),
    ],
)
def test_bounds_are_written_with_their_unit(low: float | None, high: float | None, metric: str, text: str) -> None:
    assert values.wanted({"metric": metric, "least": low, "most": high}) == text


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("lost", 19240, "19,240"),
        ("lost", None, "not measured"),
        ("serve_ms", 2514.7, "2,514.7 ms"),
        ("ratio", 2.0, "2.00 times"),
        ("lost_percent", 26.054, "26.05 %"),
        ("lost_percent", 0.0104, "0.0104 %"),
    ],
)
def test_figures_are_written_in_their_unit(metric: str, value: float | None, text: str) -> None:
    assert values.seen({"metric": metric, "seen": value}) == text


@pytest.mark.parametrize(
    ("lost", "acked", "verdict", "text"),
    [
        (7540, 28940, "pass", "7,540 (26.05 % of 28,940 acknowledged)"),
        (0, 3000, "pass", "0 (95 % upper bound 3/3,000 = 0.1 %)"),
        (0, 3000, "inconclusive", "0 (of 3,000 acknowledged, and nothing is proven by it)"),
        (0, 0, "pass", "0 (of 0 acknowledged)"),
        (None, 5, "inconclusive", "not measured"),
    ],
)
def test_loss_is_told_with_what_it_does_not_rule_out(lost: int | None, acked: int, verdict: str, text: str) -> None:
    assert values.lost({"lost": lost, "ops": {"acked": acked}, "verdict": verdict}) == text


def test_targets_are_met_missed_or_not_measured() -> None:
    run, _ = recorded("write-loss-cluster")
    assert [one.met for one in targets(run)] == [True, True, False]
    assert "502 ms of writes are 5 % of what a steady load counts in 10.03 s" in targets(run)[2].how
    late = changed(run, metrics__serve_ms=30_001.0, metrics__gap_ms=30_000.0, lost=None)
    assert [one.met for one in targets(late)] == [False, False, None]
    assert [one.met for one in targets(changed(run, metrics__serve_ms=None, metrics__gap_ms=None))][:2] == [None, None]


@given(
    slope=st.floats(-100, 100),
    offset=st.floats(-1e4, 1e4),
    places=st.lists(st.integers(0, 2000), min_size=2, max_size=9),
)
def test_points_on_a_line_give_that_line(slope: float, offset: float, places: list[int]) -> None:
    line = fitted([(x, slope * x + offset) for x in places])
    if len(set(places)) < 2:
        assert line is None
        return
    assert line is not None
    assert line.slope == pytest.approx(slope, abs=1e-6)
    assert line.offset == pytest.approx(offset, abs=1e-4)


def test_least_squares_by_hand() -> None:
    line = fitted([(0, 0), (1, 2), (2, 1)])
    assert line is not None
    assert (line.slope, line.offset) == (pytest.approx(0.5), pytest.approx(0.5))
    assert line.fit == pytest.approx(0.25)
    assert fitted([(0, 3), (1, 3)]).fit == 1.0  # type: ignore[union-attr]
    assert fitted([]) is None


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(1, 30)), max_size=14))
def test_no_label_covers_another_and_no_line_runs_through_one(given: list[tuple[float, int]]) -> None:
    placed = rows([TimelineLabel(at_ms=at_ms, text="x" * letters, is_done=True) for at_ms, letters in given], 8.0)
    assert len(placed) == len(given)
    for first, (mark, row) in enumerate(placed):
        end_ms = mark.at_ms + 8.0 * len(mark.text)
        for later, its_row in placed[first + 1 :]:
            # A line goes down from its own label: through every lower row, and through none above.
            assert not (mark.at_ms <= later.at_ms < end_ms and its_row >= row)


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(1, 30)), max_size=9))
def test_axis_is_long_enough_for_every_label(given: list[tuple[float, int]]) -> None:
    found = [TimelineLabel(at_ms=at_ms, text="x" * letters, is_done=False) for at_ms, letters in given]
    end_ms = reach_ms(found, 0.0, 4000.0, 1 / 130)
    assert end_ms >= 4000
    assert all(one.at_ms + len(one.text) * end_ms / 130 <= end_ms + 1e-6 for one in found)


def test_faults_last_until_they_are_undone() -> None:
    _, series = recorded("write-loss-cluster")
    assert [(one.name, one.start_ms, one.end_ms) for one in faults(series)] == [
        ("cut", 803.8, 4395.1),
        ("kill", 1304.2, 4395.1),
    ]
    _, split = recorded("split-brain-cluster")
    assert [(one.start_ms, one.end_ms) for one in faults(split)] == [(806.1, 4203.2)]


def test_a_fault_that_nothing_undid_lasts_to_the_end() -> None:
    _, series = recorded("write-loss-cluster")
    series["events"] = [one for one in series["events"] if one["name"] not in {"heal", "healed"}]
    assert {one.end_ms for one in faults(series)} == {4750.5}


def test_lanes_tell_roles_and_epochs() -> None:
    _, series = recorded("write-loss-cluster")
    assert [one.text for one in lane(series["nodes"]["node-0"], 5000.0)] == [
        "primary, epoch 1",
        "no answer",
        "primary, epoch 0",
        "replica",
    ]
    _, watched = recorded("write-loss-sentinel")
    texts = [one.text for one in lane(watched["nodes"]["node-0"], 5000.0)]
    assert texts == ["primary", "no answer", "replica without link", "replica"]
    assert [one.text for one in lane(watched["nodes"]["sentinel-0"], 5e3)] == ["sentinel, epoch 0", "sentinel, epoch 1"]


def test_marks_are_what_was_done_and_what_was_seen() -> None:
    _, series = recorded("write-loss-cluster")
    texts = {(one.text, one.is_done) for one in timeline_labels(series)}
    assert {("cut", True), ("kill node-0", True), ("promoted", False), ("served again", False)} <= texts
    assert not any("loaded" in text for text, _ in texts)


@pytest.mark.parametrize(
    ("shown", "value", "wanted"),
    [(values.ms, 1234.56, "1,234.6 ms"), (values.fine_ms, 0.1234, "0.123 ms"), (values.count, 1200.0, "1,200")],
)
def test_a_figure_and_a_missing_one(shown: Callable[[float | None], str], value: float, wanted: str) -> None:
    assert shown(value) == wanted
    assert shown(None) == values.UNMEASURED
