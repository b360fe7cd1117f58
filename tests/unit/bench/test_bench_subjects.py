from dataclasses import replace

import pytest

from rlctl.bench.subjects import KEPT_MS, Answer, BenchCase, bench_cases
from rlctl.errors import NotFound
from rlctl.limiter import ALGORITHMS
from rlctl.limits.resp import parse
from rlctl.scripts.release import load_release

RELEASE = load_release()
ALL = bench_cases(RELEASE, ())
NOW_US = 1_800_000_000_000_000


def words(call: bytes) -> list[bytes]:
    reply, end = parse(call)
    assert end == len(call)
    assert isinstance(reply, list)
    return reply


def test_incr_first_then_every_script_of_the_release_twice() -> None:
    assert [(one.name, one.answer) for one in ALL] == [
        ("incr", None),
        *((script.name, answer) for script in RELEASE.scripts for answer in Answer),
    ]
    assert {one.name for one in ALL} == {"incr", *ALGORITHMS}


def test_some_scripts() -> None:
    assert [one.name for one in bench_cases(RELEASE, ["gcra"])] == ["incr", "gcra", "gcra"]
    with pytest.raises(NotFound, match="no script nonsense"):
        bench_cases(RELEASE, ["gcra", "nonsense"])


def test_a_script_of_a_later_release_is_named() -> None:
    unknown = replace(RELEASE.scripts[0], name="later")
    with pytest.raises(NotFound, match="cannot bench later"):
        bench_cases(replace(RELEASE, scripts=(unknown,)), ())


@pytest.mark.parametrize("case", ALL, ids=lambda one: f"{one.name}-{one.answer}")
def test_every_call_goes_to_the_one_key_below_the_namespace(case: BenchCase) -> None:
    key = case.key(b"tag")
    assert key.startswith(b"rl:{tag}:bench")
    for call in (case.message(b"tag"), *case.fill(b"tag", NOW_US)):
        name, *rest = words(call)
        assert name in {b"EVALSHA", b"INCR", b"SET"}
        assert rest[2 if name == b"EVALSHA" else 0] == key


def test_no_two_subjects_share_a_key() -> None:
    assert len({one.key(b"tag") for one in ALL}) == len(ALL)


def test_a_plain_counter_has_an_end() -> None:
    assert words(ALL[0].fill(b"tag", NOW_US)[0])[-2:] == [b"PX", b"%d" % KEPT_MS]


def test_the_sliding_counter_carries_something_over() -> None:
    [counter] = [one for one in ALL if (one.name, one.answer) == ("sliding_counter", Answer.ADMIT)]
    [fill] = counter.fill(b"tag", NOW_US)
    assert words(fill)[-2:] == [b"1000", b"%d" % (NOW_US - KEPT_MS * 1000)]
