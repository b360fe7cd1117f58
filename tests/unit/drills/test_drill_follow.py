"""What a client's growing file says: who answered last, and whether the hot user was told no."""

from pathlib import Path

import pytest

from rlctl.drills.record.follow import HistoryFollower
from rlctl.drills.record.ops import HOT, WAITED, Batch, OpOutcome

YES, NO = HOT | OpOutcome.ADMITTED, HOT | OpOutcome.DENIED
OTHER = OpOutcome.ADMITTED


def batch(*codes: int, node: int = 0, done_s: float = 1.0) -> bytes:
    return Batch(node=node, connection=0, first=0, sent_s=0.5, done_s=done_s, codes=bytes(codes)).pack()


def tail_of(tmp_path: Path, *batches: bytes) -> HistoryFollower:
    path = tmp_path / "history"
    path.write_bytes(b"".join(batches))
    follower = HistoryFollower(path)
    follower.read()
    return follower


@pytest.mark.parametrize(
    ("batches", "is_used_up"),
    [
        pytest.param([], False, id="nobody asked"),
        pytest.param([(OTHER, OpOutcome.DENIED)], False, id="only cold users"),
        pytest.param([(YES, OTHER)], False, id="still admitted"),
        pytest.param([(YES,), (OTHER, NO)], True, id="denied"),
        pytest.param([(NO | WAITED,)], True, id="denied, and on a replica"),
        pytest.param([(YES, NO)], False, id="the batch in which it ends"),
        pytest.param([(NO,), (OTHER, OTHER)], True, id="only cold users since"),
        pytest.param([(NO,), (HOT | OpOutcome.INDETERMINATE,)], True, id="no answer since"),
        pytest.param([(NO,), (HOT | OpOutcome.REFUSED,)], True, id="refused since"),
        pytest.param([(NO,), (YES,)], False, id="admitted again by who took over"),
        pytest.param([(NO,), (YES,), (NO,)], True, id="used up there too"),
    ],
)
def test_whether_the_hot_user_has_used_the_limit_up(
    tmp_path: Path, batches: list[tuple[int, ...]], *, is_used_up: bool
) -> None:
    assert tail_of(tmp_path, *(batch(*codes) for codes in batches)).is_used_up is is_used_up


def test_a_file_is_read_on_where_it_ended_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    first, second = batch(YES, done_s=1.0), batch(NO, node=1, done_s=2.0)
    follower = tail_of(tmp_path, first, second[:-1])
    assert (follower.last_ack_s, follower.first_away_s, follower.is_used_up) == (1.0, None, False)
    with (tmp_path / "history").open("ab") as sink:
        sink.write(second[-1:])
    follower.read()
    assert (follower.last_ack_s, follower.first_away_s, follower.is_used_up) == (2.0, 2.0, True)


def test_a_file_that_is_not_there_yet_says_nothing(tmp_path: Path) -> None:
    follower = HistoryFollower(tmp_path / "history")
    follower.read()
    assert follower.last_ack_s is None
    assert not follower.is_used_up


def test_refused_operations_are_counted(tmp_path: Path) -> None:
    assert tail_of(tmp_path, batch(OpOutcome.REFUSED, OpOutcome.REFUSED), batch(OTHER)).refused == 2
