"""A child that was forked while its parent's threads held locks decides by the policy, within the budget."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from rlctl.limiter import FixedWindow, Limiter, LocalPolicy
from rlctl.limiter.core.breaker import Breaker, BreakerSettings, Circuit
from rlctl.limiter.core.counters import Counters
from rlctl.limiter.core.local import LocalLimits
from tests.local.driver import PATIENCE_S, wait_for
from tests.local.ports import next_base_port

RULE = FixedWindow(10, 60_000)
FORKS = 10


def in_child(act: Callable[[], object]) -> bool:
    """Whether a forked child completes this in time; else it is killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    ended: list[int] = []
    try:
        wait_for(lambda: bool(ended or _ended(child, ended)), "the end of the child", timeout_s=PATIENCE_S)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False
    return ended == [0]


def _ended(child: int, codes: list[int]) -> bool:
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid:
        codes.append(os.waitstatus_to_exitcode(status))
    return bool(pid)


def _breaker() -> tuple[Any, Callable[[], object]]:
    breaker = Breaker(BreakerSettings(failures=1))
    return breaker, breaker.failed


def _counters() -> tuple[Any, Callable[[], object]]:
    counters = Counters()
    return counters, counters.looked_up


def _local() -> tuple[Any, Callable[[], object]]:
    limits = LocalLimits(1, 10)
    return limits, lambda: limits.count(RULE, b"k", 1)


@pytest.mark.parametrize("make", [_breaker, _counters, _local])
def test_a_lock_that_a_thread_of_the_parent_holds_is_free_in_the_child(
    make: Callable[[], tuple[Any, Callable[[], object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.PATIENCE_S", 20.0)
    owner, act = make()
    with owner._lock:
        assert in_child(act)


def test_a_probe_of_the_parent_keeps_no_breaker_of_the_child_shut() -> None:
    breaker = Breaker(BreakerSettings(failures=1, backoff_ms=1))
    breaker.failed()
    wait_for(breaker.admit, "the back-off is over")
    assert (breaker.circuit, breaker.admit()) == (Circuit.HALF_OPEN, False)

    def probes() -> None:
        assert breaker.admit()

    assert in_child(probes)
    assert breaker.circuit is Circuit.HALF_OPEN


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_under_busy_threads_without_redis() -> None:
    """Six threads decide as fast as they can. Every child decides by the policy at once."""
    settings = {"host": "127.0.0.1", "port": next_base_port()}
    limiter = Limiter.connect(settings, policy=LocalPolicy(1), budget_ms=20, connect_timeout_ms=100)
    ended = threading.Event()

    def busy() -> None:
        while not ended.is_set():
            limiter.decide(RULE, "u")

    threads = [threading.Thread(target=busy) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            assert in_child(lambda: [limiter.decide(RULE, f"u{number}") for number in range(20)])
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        limiter.close()
