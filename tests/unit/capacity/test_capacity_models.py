"""The published figures, as published."""

from typing import Any

import pytest

from rlctl.capacity.published import check_claims
from rlctl.capacity.request import Algorithm
from tests.unit.capacity.asked import STATES, ask


def published(**sizes: int) -> dict[str, Any]:
    chosen = {"users": 1_000_000, "limit": 100, "concurrent": 50, "requests_per_s": 100_000} | sizes
    document: dict[str, Any] = check_claims(ask(algorithm="gcra"), STATES, **chosen).to_json()
    return document


def row(document: dict[str, Any], source: str, algorithm: str, *, own: bool = False) -> dict[str, Any]:
    return next(
        one
        for one in document["rows"]
        if (one["source"], one["algorithm"], one["encoding"] == "script") == (source, algorithm, own)
    )


@pytest.mark.parametrize(
    ("source", "algorithm", "each", "total"),
    [
        ("paper", "token_bucket", 16, 16_000_000),
        ("paper", "fixed_window", 16, 16_000_000),
        ("paper", "rolling_window", 800, 800_000_000),
        ("paper", "concurrent", 800, 800_000_000),
        ("digest", "fixed_window", 8, 8_000_000),
        ("digest", "token_bucket", 12, 12_000_000),
        ("digest", "rolling_window", 16, 16_000_000),
        ("gateway", "sliding_counter", 140, 1_400_000_000),
        ("case-study", "rolling_window", 1_000, 1_000_000_000),
    ],
)
def test_claims_are_as_published(source: str, algorithm: str, each: int, total: int) -> None:
    for own in (False, True):
        found = row(published(), source, algorithm, own=own)
        assert (found["claimed_bytes_per_user"], found["claimed_total_bytes"]) == (each, total)


def test_each_claim_has_its_truth_and_the_ratio() -> None:
    for found in published()["rows"]:
        assert found["bytes_per_user"] > 0
        assert found["ratio"] == pytest.approx(found["bytes_per_user"] / found["claimed_bytes_per_user"])
        assert found["total_bytes"] == pytest.approx(found["bytes_per_user"] * found["users"], abs=1)


def test_claims_follow_users_limit_and_leases() -> None:
    document = published(users=5, limit=7, concurrent=3)
    assert row(document, "paper", "rolling_window")["claimed_total_bytes"] == 5 * 8 * 7
    assert row(document, "paper", "concurrent")["claimed_total_bytes"] == 5 * 16 * 3
    assert row(document, "gateway", "sliding_counter")["users"] == 10_000_000


def test_the_gateway_design_is_wrong_by_what_the_facts_say() -> None:
    found = row(published(), "gateway", "sliding_counter")
    assert found["key_length"] == 40
    assert found["total_bytes"] == pytest.approx(2.46e9, rel=0.02)


def test_traffic_is_as_published() -> None:
    assert published()["traffic"] == {
        "requests_per_s": 100_000,
        "operations_per_s": 200_000,
        "bits_per_s": 160_000_000,
        "key_creations_per_s": 167_000,
        "shard_from_requests_per_s": 150_000,
    }


def test_every_algorithm_of_the_paper_is_there() -> None:
    found = {one["algorithm"] for one in published()["rows"]}
    assert found == {algorithm.value for algorithm in Algorithm} - {"gcra", "rolling_ring"}
