"""rlctl limit: one decision from the command line, by every algorithm."""

import pytest

from rlctl.limiter import ALGORITHMS
from tests.local.driver import LocalFleet

KEYS = {
    *("schema", "rule", "identity", "allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms"),
    *("reason", "source", "headers", "tier", "tier_known"),
}


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_two_fit_and_the_third_is_denied(shared_cluster: LocalFleet, algorithm: str) -> None:
    words = ["limit", "--algorithm", algorithm, "--limit", "2", "--rate", "1", "--period", "1h", "--window", "1h"]
    words += ["--lease", "10m", "-o", "json", f"user-of-{algorithm}"]
    answers = [shared_cluster.run(*words).json() for _ in range(3)]
    assert [(one["allowed"], one["remaining"], one["reason"]) for one in answers] == [
        (True, 1, "ok"),
        (True, 0, "ok"),
        (False, 0, "over_limit"),
    ]
    assert {one["source"] for one in answers} == {"redis"}
    assert all(set(one) == KEYS for one in answers)
    assert answers[2]["retry_after_ms"] > 0
    assert int(answers[2]["headers"]["Retry-After"]) * 1000 >= answers[2]["retry_after_ms"]
    assert "Retry-After" not in answers[0]["headers"]


def test_peek_counts_nothing(shared_cluster: LocalFleet) -> None:
    words = ["limit", "--algorithm", "fixed_window", "--limit", "5", "--window", "1h", "-o", "json", "peeker"]
    assert [shared_cluster.run(*words, "--peek").json()["remaining"] for _ in range(2)] == [5, 5]
    assert shared_cluster.run(*words, "--cost", "3").json()["remaining"] == 2


def test_the_sentinel_kind_too(shared_sentinel: LocalFleet) -> None:
    answer = shared_sentinel.run("limit", "--algorithm", "gcra", "-o", "json", "ada").json()
    assert (answer["allowed"], answer["source"], answer["rule"]) == (True, "redis", "direct")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--algorithm", "gcra", "a", "b"), 2),
        (("ada",), 2),
        (("api", "ada"), 5),
        (("api", "ada", "x"), 2),
        (("--algorithm", "nonsense", "ada"), 2),
        (("--algorithm", "rolling_ring", "--limit", "2000000", "ada"), 2),
        (("--algorithm", "fixed_window", "--window", "0s", "ada"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_bad_input(shared_cluster: LocalFleet, words: tuple[str, ...], code: int) -> None:
    ran = shared_cluster.run("limit", *words, "-o", "json", expect=code)
    assert ran.error()["message"]
    assert ran.out == ""


def test_without_a_fleet(cluster: LocalFleet) -> None:
    assert cluster.run("limit", "--algorithm", "gcra", "ada", "-o", "json", expect=5).error()["hint"]
