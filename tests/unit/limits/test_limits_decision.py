from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlctl.limiter import Cause, Decision, Quota, Reason, Source
from rlctl.limits import decision as module


def decision(**changes: object) -> Decision:
    values: dict[str, Any] = {
        "allowed": True,
        "limit": 10,
        "remaining": 9,
        "retry_after_ms": 0,
        "reset_after_ms": 1000,
        "reason": Reason.OK,
        "source": Source.REDIS,
        "quota": Quota(name="api", window_ms=60_000),
    }
    return Decision(**values | changes)


@pytest.mark.parametrize(
    ("changes", "headers"),
    [
        pytest.param(
            {},
            {
                "X-RateLimit-Limit": "10",
                "X-RateLimit-Remaining": "9",
                "X-RateLimit-Reset": "1",
                "RateLimit-Policy": '"api";q=10;w=60',
                "RateLimit": '"api";r=9;t=1',
            },
            id="allowed",
        ),
        pytest.param(
            {"allowed": False, "remaining": 0, "retry_after_ms": 1001, "reset_after_ms": 59_001},
            {
                "X-RateLimit-Limit": "10",
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": "60",
                "Retry-After": "2",
                "RateLimit-Policy": '"api";q=10;w=60',
                "RateLimit": '"api";r=0;t=2',
            },
            id="denied, both waits rounded up",
        ),
        pytest.param(
            {"allowed": False, "retry_after_ms": -1, "reset_after_ms": 0, "reason": Reason.IMPOSSIBLE},
            {
                "X-RateLimit-Limit": "10",
                "X-RateLimit-Remaining": "9",
                "X-RateLimit-Reset": "0",
                "RateLimit-Policy": '"api";q=10;w=60',
                "RateLimit": '"api";r=9;t=0',
            },
            id="never: no Retry-After",
        ),
        pytest.param(
            {
                "remaining": None,
                "reset_after_ms": None,
                "source": Source.OPEN,
                "quota": Quota(unit="concurrent-requests"),
            },
            {"X-RateLimit-Limit": "10", "RateLimit-Policy": '"default";q=10;qu="concurrent-requests"'},
            id="unknown is left out",
        ),
    ],
)
def test_headers(changes: dict[str, Any], headers: dict[str, str]) -> None:
    assert decision(**changes).headers() == headers


@given(
    allowed=st.booleans(),
    limit=st.integers(0, 2**53),
    remaining=st.integers(-5, 2**53),
    retry=st.integers(-1, 2**53),
    reset=st.integers(-5, 2**53),
    name=st.text(),
)
def test_headers_are_never_negative_and_always_plain(
    *, allowed: bool, limit: int, remaining: int, retry: int, reset: int, name: str
) -> None:
    given_decision = decision(
        allowed=allowed,
        limit=limit,
        remaining=remaining,
        retry_after_ms=retry,
        reset_after_ms=reset,
        quota=Quota(name=name, window_ms=1),
    )
    headers = given_decision.headers()
    assert all(text.isascii() and text.isprintable() for text in headers.values())
    assert all(int(text) >= 0 for key, text in headers.items() if not key.startswith("RateLimit"))
    assert ("Retry-After" in headers) is (not allowed and retry >= 0)
    assert int(headers.get("Retry-After", "1")) >= 1


def test_a_policy_name_cannot_leave_its_quotes() -> None:
    assert decision(quota=Quota(name='a"b\\c\n')).headers()["RateLimit-Policy"] == '"a\\"b\\\\c?";q=10'


def test_what_a_quota_says_is_built_once_for_each_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    quoted = module._quoted

    def counted(text: str) -> str:
        built.append(text)
        return quoted(text)

    monkeypatch.setattr(module, "_quoted", counted)
    quota = Quota(name="api", window_ms=60_000)
    for limit in (10, 5):
        for remaining in range(100):
            headers = decision(limit=limit, remaining=remaining, quota=quota).headers()
            assert headers["RateLimit-Policy"] == f'"api";q={limit};w=60'
            assert headers["RateLimit"] == f'"api";r={remaining};t=1'
    assert built == ["api", "api"]
    for limit in range(1000):
        assert decision(limit=limit, quota=quota).headers()["X-RateLimit-Limit"] == str(limit)
    assert len(quota._header_parts) <= module._MOST_LIMITS
    assert quota == Quota(name="api", window_ms=60_000)
    assert repr(quota) == "Quota(name='api', window_ms=60000, unit=None)"


def test_a_decision_is_a_value() -> None:
    assert decision() == decision()
    assert hash(decision(cause=Cause.TIMEOUT)) != hash(decision())
    with pytest.raises(AttributeError):
        decision().allowed = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("number", "field"),
    [(-1, 0), (0, 0), (10**15 - 1, 10**15 - 1), (10**15, 10**15 - 1), (2**53, 10**15 - 1)],
)
def test_integers_of_structured_fields_have_fifteen_digits(number: int, field: int) -> None:
    headers = decision(limit=number, remaining=number, reset_after_ms=number * 1000).headers()
    assert headers["RateLimit-Policy"] == f'"api";q={field};w=60'
    assert headers["RateLimit"] == f'"api";r={field};t={field}'
    assert headers["X-RateLimit-Remaining"] == str(max(0, number))


@pytest.mark.parametrize(("ms", "seconds"), [(-5, 0), (0, 0), (1, 1), (1000, 1), (1001, 2)])
def test_seconds_are_rounded_up(ms: int, seconds: int) -> None:
    assert decision(reset_after_ms=ms).headers()["X-RateLimit-Reset"] == str(seconds)


@pytest.mark.parametrize(
    ("allowed", "retry_after_ms", "seconds"), [(False, -1, None), (False, 0, 1), (False, 1001, 2), (True, 5, None)]
)
def test_a_denial_that_ends_has_at_least_a_second(retry_after_ms: int, seconds: int | None, *, allowed: bool) -> None:
    assert decision(allowed=allowed, retry_after_ms=retry_after_ms).retry_after_s == seconds
