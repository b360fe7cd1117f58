"""Limiter, rules watch and failovers for RLCTL_SOAK_S seconds: memory, descriptors and threads do not grow."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from rlctl.limiter import Limiter
from tests.local.driver import LocalFleet, cluster_document, sentinel_document, wait_for
from tests.local.rules.files import apply, rule

SOAK_S = float(os.environ.get("RLCTL_SOAK_S", "0"))
pytestmark = pytest.mark.skipif(SOAK_S <= 0, reason="RLCTL_SOAK_S says for how long; `make soak` does")
CALLERS = 4
SHARDS = {"cluster": 3, "sentinel": 1}
MIB = 1024 * 1024
# Python's allocator gives memory back in arenas: what comes and goes by a few of them is no leak.
GROWTH = 4 * MIB
# A failover leaves connections to the old primary open for a moment.
MORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What this process holds."""

    memory: int
    descriptors: int
    threads: int


def sample() -> Sample:
    process = psutil.Process()
    with process.oneshot():
        return Sample(memory=process.memory_info().rss, descriptors=process.num_fds(), threads=process.num_threads())


@contextmanager
def busy(service: Limiter) -> Iterator[list[int]]:
    """Callers that decide all the time; how often they did so far."""
    ended, decided = threading.Event(), [0] * CALLERS

    def call(number: int) -> None:
        while not ended.wait(0.002):
            service.decide("api-per-key", f"user-{number}-{decided[number] % 1000}")
            decided[number] += 1

    callers = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield decided
    finally:
        ended.set()
        for caller in callers:
            caller.join()


@pytest.mark.parametrize("document", [cluster_document, sentinel_document], ids=["cluster", "sentinel"])
def test_nothing_grows(tmp_path: Path, document: Callable[[], dict[str, Any]]) -> None:
    fleet = LocalFleet(folder=tmp_path, document=document())
    fleet.write()
    try:
        fleet.deploy()
        apply(fleet, rule(limit=1000))
        with Limiter.connect(fleet.access("limiter"), rules=True) as service, busy(service) as decided:
            samples = list(run(fleet, decided))
    finally:
        fleet.end_all()
    # The first quarter fills pools and caches.
    rest = samples[len(samples) // 4 :]
    early, late = rest[: len(rest) // 3], rest[-(len(rest) // 3) :]
    assert len(early) >= 2, "too short a soak"
    for what, allowed in (("memory", GROWTH), ("descriptors", MORE), ("threads", 0)):
        before, after = (median(getattr(one, what) for one in part) for part in (early, late))
        assert after <= before + allowed, f"{what}: {[getattr(one, what) for one in rest]}"


def run(fleet: LocalFleet, decided: list[int]) -> Iterator[Sample]:
    """Failover after failover, each with other rules, while the callers decide."""
    until, turn = time.monotonic() + SOAK_S / 2, 0
    while time.monotonic() < until:
        fleet.run("failover", str(turn % SHARDS[fleet.document["kind"]]), "--yes")
        fleet.run("status", "--wait")
        apply(fleet, rule(limit=1000 + turn))
        enough = sum(decided) + 100 * CALLERS
        wait_for(lambda enough=enough: sum(decided) >= enough, "decisions after the failover")
        yield sample()
        turn += 1
