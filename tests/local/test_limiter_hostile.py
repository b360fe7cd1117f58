"""Servers that misbehave: every decision comes from the policy or the server in bounded time, without an exception."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rlctl.limiter import AsyncLimiter, Decision, FixedWindow, Limiter, Source
from rlctl.limiter.core.counters import Stats
from tests.local.hostile_resp import HELLO, HOST, MODES, hostile
from tests.local.ports import next_base_port

RULE = FixedWindow(10, 60_000)
BUDGET_MS = 20.0
CONNECT_MS = 200.0
# The budget is 20 ms. A busy machine that is ten times slower may take two hundred times as long.
GENEROUS_S = 4.0
DECISIONS = 20
KINDS = {
    "single": lambda port: {"host": HOST, "port": port},
    "cluster": lambda port: {"kind": "cluster", "nodes": [f"{HOST}:{port}"]},
    "sentinel": lambda port: {"kind": "sentinel", "sentinels": [f"{HOST}:{port}"], "master_name": "limiter"},
}


@pytest.fixture(autouse=True)
def _no_thread_dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A look-up or watch thread that ends with a traceback fails the test, too."""
    died: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    yield
    assert died == []


def with_threads(settings: dict[str, Any], *, rules: bool) -> tuple[list[Decision], list[float], Stats]:
    found, times = [], []
    with Limiter.connect(
        settings, policy="closed", budget_ms=BUDGET_MS, connect_timeout_ms=CONNECT_MS, rules=rules
    ) as subject:
        for number in range(DECISIONS):
            began_s = time.monotonic()
            found += [subject.decide(RULE, f"u{number}")] if not rules else subject.decide_all({"user": f"u{number}"})
            times.append(time.monotonic() - began_s)
        return found, times, subject.stats


def with_asyncio(settings: dict[str, Any], *, rules: bool) -> tuple[list[Decision], list[float], Stats]:
    troubles: list[Any] = []

    async def story() -> tuple[list[Decision], list[float], Stats]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: troubles.append(context))
        found, times = [], []
        async with await AsyncLimiter.connect(
            settings, policy="closed", budget_ms=BUDGET_MS, connect_timeout_ms=CONNECT_MS, rules=rules
        ) as subject:
            for number in range(DECISIONS):
                began_s = time.monotonic()
                if rules:
                    found += await subject.decide_all({"user": f"u{number}"})
                else:
                    found.append(await subject.decide(RULE, f"u{number}"))
                times.append(time.monotonic() - began_s)
            return found, times, subject.stats

    result = asyncio.run(story())
    assert troubles == []
    return result


@pytest.mark.parametrize("run", [with_threads, with_asyncio], ids=["threads", "asyncio"])
@pytest.mark.parametrize("greeting", [b"", HELLO], ids=["from the start", "after a good hello"])
@pytest.mark.parametrize("mode", MODES)
def test_every_decision_is_given_in_time(mode: str, greeting: bytes, run: Any) -> None:
    for kind, settings in KINDS.items():
        if greeting and kind == "sentinel":
            continue
        with hostile(mode, next_base_port(), greeting=greeting) as port:
            found, times, stats = run(settings(port), rules=False)
        assert len(found) == DECISIONS
        assert max(times) < GENEROUS_S, kind
        if mode != "pours replies":
            assert stats.by_source() == {Source.CLOSED: DECISIONS}
            assert sum(stats.errors.values()) > 0
        assert all(one.cause is not None for one in found if one.source is Source.CLOSED)
        assert "internal" not in stats.errors


@pytest.mark.parametrize("run", [with_threads, with_asyncio], ids=["threads", "asyncio"])
@pytest.mark.parametrize("mode", ["ok", "nil", "deep", "closes", "drips", "huge numbers", "a huge slot map"])
def test_rules_that_cannot_be_read_leave_the_policy(mode: str, run: Any) -> None:
    with hostile(mode, next_base_port(), greeting=HELLO) as port:
        found, times, stats = run(KINDS["single"](port), rules=True)
    assert {one.source for one in found} == {Source.CLOSED}
    assert max(times) < GENEROUS_S
    assert "internal" not in stats.errors
