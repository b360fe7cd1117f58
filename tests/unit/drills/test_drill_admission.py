"""Hand-counted admissions: what was given out twice, by which cause, and what will be denied wrongly."""

import pytest

from rlctl.drills.judge.accounts import Account, account
from rlctl.drills.judge.admission import CAUSES, Admission, admission, served_admission
from rlctl.drills.record.ledger import Ledger
from rlctl.drills.record.ops import HOT, OpOutcome
from tests.unit.drill_runs import SHARD, batch, client, ledger

PROMOTED = 14.0
ADMIT, DENY, LOST_ANSWER = OpOutcome.ADMITTED | HOT, OpOutcome.DENIED | HOT, OpOutcome.INDETERMINATE | HOT


def books(survivors: Ledger | None, *sent: tuple[int, float], name: str = "majority") -> Account:
    """One operation for each (code, time), numbered from 0."""
    history = client(name, *(batch(n, [code], at_s - 0.01, at_s) for n, (code, at_s) in enumerate(sent)))
    return account(history, SHARD, survivors)


def join(*accounts: Account, limit: int = 3, wiped: bool = False, skewed: bool = False) -> Admission:
    found = admission(accounts, limit, PROMOTED, wiped=wiped, skewed=skewed)
    assert found is not None
    assert sum(found.by_cause.values()) == found.over
    assert set(found.by_cause) == set(CAUSES)
    return found


def causes(found: Admission) -> dict[str, int]:
    return {cause: count for cause, count in found.by_cause.items() if count}


BEFORE, AFTER = (ADMIT, 13.0), (ADMIT, 14.5)


@pytest.mark.parametrize(
    ("kept", "sent", "numbers", "by_cause"),
    [
        pytest.param([0, 1], [BEFORE, BEFORE, (DENY, 13.5)], (2, 0, 0, 0), {}, id="below the limit"),
        pytest.param([3, 4, 5], [BEFORE] * 3 + [AFTER] * 3, (6, 3, 0, 3), {"reset": 3}, id="all given out again"),
        pytest.param([3], [BEFORE] * 3 + [AFTER], (4, 1, 0, 3), {"reset": 1}, id="demand below what was lost"),
        pytest.param([], [BEFORE] * 3, (3, 0, 0, 3), {}, id="lost, and nobody asked again"),
        pytest.param([3, 4, 5], [AFTER] * 3 + [AFTER] * 3, (6, 3, 0, 3), {"dual": 3}, id="both at the same time"),
        pytest.param(
            [3, 4, 5], [BEFORE, AFTER, AFTER] + [AFTER] * 3, (6, 3, 0, 3), {"reset": 1, "dual": 2}, id="some of both"
        ),
        pytest.param(
            [3, 4], [BEFORE, BEFORE, AFTER] + [AFTER] * 2, (5, 2, 0, 3), {"reset": 2}, id="the earliest losses first"
        ),
        pytest.param(
            [3, 4, 5],
            [BEFORE] * 3 + [(LOST_ANSWER, 14.2), AFTER, AFTER],
            (5, 2, 1, 3),
            {"reset": 2},
            id="one recovered: one less over, one under",
        ),
        pytest.param([0, 1], [BEFORE, (LOST_ANSWER, 13.2)], (1, 0, 1, 0), {}, id="recovered without any loss"),
        pytest.param([], [BEFORE, (LOST_ANSWER, 13.2)], (1, 0, 0, 1), {}, id="unanswered and gone"),
        pytest.param([0, 0, 1], [BEFORE, BEFORE], (2, 0, 1, 0), {}, id="carried out twice"),
        pytest.param([0, 1, 2, 3, 4], [AFTER] * 5, (5, 2, 0, 0), {"unexplained": 2}, id="nobody knows why"),
        pytest.param(
            [1, 2, 3, 4, 5], [BEFORE] + [AFTER] * 5, (6, 3, 0, 1), {"unexplained": 2, "reset": 1}, id="partly explained"
        ),
        pytest.param(
            [2, 3, 4, 5],
            [BEFORE, BEFORE, AFTER, AFTER, AFTER, (LOST_ANSWER, 15.0)],
            (5, 2, 1, 2),
            {"unexplained": 1, "reset": 1},
            id="an unheard one too many on the branch",
        ),
    ],
)
def test_admission(
    kept: list[int], sent: list[tuple[int, float]], numbers: tuple[int, ...], by_cause: dict[str, int]
) -> None:
    found = join(books(ledger(kept), *sent))
    assert (found.admitted, found.over, found.under, found.potential) == numbers
    assert causes(found) == by_cause


def test_denied_entries_of_the_ledger_are_no_admissions() -> None:
    denied = ledger([0, 1], admitted=[0])
    assert join(books(denied, BEFORE, (LOST_ANSWER, 13.2))).under == 0


def test_an_injected_skew_explains_what_one_branch_gave_beyond() -> None:
    assert causes(join(books(ledger(range(5)), *[AFTER] * 5), skewed=True)) == {"clock": 2}


def test_a_node_reborn_empty_gives_out_what_it_forgot() -> None:
    assert causes(join(books(ledger([3, 4, 5]), *[BEFORE] * 3, *[AFTER] * 3), wiped=True)) == {"wipe": 3}


def test_the_clients_of_both_sides_share_one_limit() -> None:
    minority = books(ledger([]), *[BEFORE] * 3, name="minority")
    found = join(minority, books(ledger([0, 1, 2]), *[AFTER] * 3))
    assert (found.admitted, found.ratio, causes(found)) == (6, 2.0, {"reset": 3})


def test_who_asks_other_shards_has_a_limit_of_his_own() -> None:
    others = books(None, *[BEFORE] * 3, name="others")
    assert join(books(ledger([0, 1, 2]), *[BEFORE] * 3), others).over == 0


def test_one_missing_ledger_makes_it_unknown() -> None:
    accounts = [books(ledger([]), BEFORE), books(None, BEFORE, name="minority")]
    assert admission(accounts, 3, None, wiped=False, skewed=False) is None


def test_where_nobody_is_hot_there_is_nothing_to_say() -> None:
    assert admission([books(ledger([0]), (OpOutcome.ADMITTED, 13.0))], 3, None, wiped=False, skewed=False) is None


def test_without_a_promotion_nothing_was_given_out_on_two_branches() -> None:
    found = admission([books(ledger([3]), *[BEFORE] * 3, AFTER)], 3, None, wiped=False, skewed=False)
    assert found is not None
    assert causes(found) == {"reset": 1}


ALONE, DENIED_ALONE = OpOutcome.LOCAL_ADMITTED | HOT, OpOutcome.LOCAL_DENIED | HOT


@pytest.mark.parametrize(
    ("codes", "numbers", "by_cause"),
    [
        pytest.param([ADMIT] * 2 + [DENY], (2, 0, 0), {}, id="below the limit"),
        pytest.param([ADMIT] * 3 + [ALONE] * 2, (5, 2, 2), {"fail_open": 2}, id="the service let them in"),
        pytest.param([ADMIT] * 2 + [ALONE] * 2, (4, 1, 2), {"fail_open": 1}, id="some of them were within the limit"),
        pytest.param([ALONE] * 4, (4, 1, 4), {"fail_open": 1}, id="Redis decided nothing"),
        pytest.param([ADMIT] * 5, (5, 2, 0), {"unexplained": 2}, id="Redis let in too many"),
        pytest.param([ADMIT] * 5 + [ALONE], (6, 3, 1), {"fail_open": 1, "unexplained": 2}, id="both did"),
        pytest.param([ADMIT] * 3 + [DENIED_ALONE] * 2, (3, 0, 0), {}, id="the service kept them out"),
    ],
)
def test_what_users_of_a_service_got(codes: list[int], numbers: tuple[int, ...], by_cause: dict[str, int]) -> None:
    found = served_admission([books(None, *((code, 14.5) for code in codes))], limit=3)
    assert found is not None
    assert (found.admitted, found.over, found.potential) == numbers
    assert (found.under, causes(found)) == (0, by_cause)
    assert set(found.by_cause) == set(CAUSES)


def test_users_who_asked_for_nothing_got_nothing() -> None:
    assert served_admission([books(None, (OpOutcome.ADMITTED, 14.5))], limit=3) is None
