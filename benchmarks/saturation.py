"""The share of decisions by Redis under more concurrent callers than this machine can serve."""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from contest import ContestError
from scratch_server import Scratch, load_scripts, scratch_server
from table import render_table

from rlctl.limiter import AsyncLimiter, Decision, Gcra, Limiter, Source

BUDGET_MS = 5.0
# The work of a service for a request besides the decision.
WORK_S = 0.0001
CALLERS = (64, 200)
GOAL = 0.95
RULE = Gcra(1_000_000_000, 1_000_000_000, 1000)
LEGEND = """\
by redis: decisions that Redis made; the failure policy made all others
wait: latency of a decision, including waits for the event loop or the interpreter"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All decisions of one kind of caller."""

    kind: str
    callers: int
    sources: Counter[Source]
    causes: Counter[str]
    waits_ms: list[float]
    seconds: float
    breakers_opened: int

    @property
    def share(self) -> float:
        """The share of decisions by Redis."""
        return self.sources[Source.REDIS] / self.sources.total()

    @property
    def is_met(self) -> bool:
        return self.share >= GOAL

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "callers": self.callers,
            "share": self.share,
            "goal": GOAL,
            "met": self.is_met,
            "decisions": self.sources.total(),
            "per_s": self.sources.total() / self.seconds,
            "causes": dict(self.causes),
            "breakers_opened": self.breakers_opened,
            "median_ms": median(self.waits_ms),
            "p99_ms": percentile(self.waits_ms, 99),
            "longest_ms": max(self.waits_ms),
        }


@dataclass(slots=True)
class CallerCounts:
    """The counts of one caller; callers share no counter, so they need no lock."""

    sources: Counter[Source]
    causes: Counter[str]
    waits_ms: list[float]

    def add(self, decision: Decision, began_s: float) -> None:
        self.waits_ms.append((time.perf_counter() - began_s) * 1000)
        self.sources[decision.source] += 1
        if decision.cause is not None:
            self.causes[decision.cause.value] += 1


def percentile(values: list[float], share: int) -> float:
    """The percentile of the values."""
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


def work() -> None:
    """Use the processor, as the handler of a request does."""
    until_s = time.perf_counter() + WORK_S
    while time.perf_counter() < until_s:
        pass


def with_threads(server: Scratch, callers: int, seconds: float) -> Result:
    """Measure threads that decide without pauses."""
    everything = [CallerCounts(Counter(), Counter(), []) for _ in range(callers)]
    with Limiter.connect(settings_of(server), budget_ms=BUDGET_MS, warm=callers) as limiter:
        until_s = time.perf_counter() + seconds

        def call(number: int) -> None:
            while (began_s := time.perf_counter()) < until_s:
                everything[number].add(limiter.decide(RULE, f"user-{number}"), began_s)
                work()

        threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return summed("threads", everything, seconds, limiter.stats.breakers_opened)


def with_asyncio(server: Scratch, callers: int, seconds: float, kind: str, run: Callable[..., Any]) -> Result:
    """Measure asyncio tasks that decide without pauses."""
    everything = [CallerCounts(Counter(), Counter(), []) for _ in range(callers)]

    async def story() -> int:
        async with await AsyncLimiter.connect(settings_of(server), budget_ms=BUDGET_MS) as limiter:
            until_s = time.perf_counter() + seconds

            async def call(number: int) -> None:
                while (began_s := time.perf_counter()) < until_s:
                    everything[number].add(await limiter.decide(RULE, f"user-{number}"), began_s)
                    work()
                    await asyncio.sleep(0)

            await asyncio.gather(*(call(number) for number in range(callers)))
            return limiter.stats.breakers_opened

    return summed(kind, everything, seconds, run(story()))


def summed(kind: str, everything: list[CallerCounts], seconds: float, breakers_opened: int) -> Result:
    """Sum the counts of all callers."""
    return Result(
        kind=kind,
        callers=len(everything),
        sources=sum((one.sources for one in everything), Counter()),
        causes=sum((one.causes for one in everything), Counter()),
        waits_ms=[wait_ms for one in everything for wait_ms in one.waits_ms],
        seconds=seconds,
        breakers_opened=breakers_opened,
    )


def settings_of(server: Scratch) -> dict[str, object]:
    """The settings of the library for the scratch server."""
    return {"kind": "single", "host": "127.0.0.1", "port": server.port}


def measure(seconds: float) -> list[Result]:
    """Measure all kinds of callers on one server."""
    with scratch_server() as server:
        load_scripts(server)
        results = []
        for callers in CALLERS:
            results.append(with_threads(server, callers, seconds))
            results.append(with_asyncio(server, callers, seconds, "asyncio", asyncio.run))
            uvloop = installed_uvloop()
            if uvloop is not None:
                results.append(with_asyncio(server, callers, seconds, "uvloop", uvloop.run))
        return results


def installed_uvloop() -> Any:  # noqa: ANN401  the module is optional
    """The module uvloop; None where it is not installed."""
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return None
    return uvloop


def as_text(results: list[Result]) -> str:
    """The report as text."""
    rows = [
        [
            one.kind,
            str(one.callers),
            f"{one.share:.3f}",
            f"{one.sources.total() / one.seconds:,.0f}",
            f"{median(one.waits_ms):.1f}",
            f"{percentile(one.waits_ms, 99):.1f}",
            f"{max(one.waits_ms):.1f}",
            str(one.breakers_opened),
            ", ".join(f"{cause} {count}" for cause, count in one.causes.most_common()) or "-",
            "met" if one.is_met else "MISSED",
        ]
        for one in results
    ]
    header = ["kind", "callers", "by redis", "per s", "median ms", "p99 ms", "longest ms", "breakers", "causes"]
    return f"{render_table([*header, f'goal >= {GOAL:g}'], rows)}\n\n{LEGEND}"


def main() -> int:
    """Measure, print, and leave nothing running."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument("-s", "--seconds", type=float, default=3.0, help="for each kind and number of callers")
    args = parser.parse_args()
    try:
        results = measure(args.seconds)
    except ContestError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    if args.output == "json":
        document = {"schema": "rlctl-benchmark.saturation/1", "results": [one.to_json() for one in results]}
        print(json.dumps(document, indent=2))
    else:
        print(as_text(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
