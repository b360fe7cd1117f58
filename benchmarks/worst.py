"""The longest known calls of the shipped scripts, in milliseconds of processor time of the server.

usage: worst.py [-n ROUNDS]
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scratch_server import scratch_server
from table import render_table

from rlctl.scripts.release import load_release

NOW_US, DAY_US = 1_790_000_000_000_000, 86_400_000_000
LEASES = 30_000
Call = tuple[str, tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Calls that prepare a state, and the call to measure."""

    name: str
    before: tuple[Call, ...]
    last: Call


def _log(limit: int, at: int, cost: int | None = None) -> Call:
    return "rolling_window", (limit, 60_000, 0, limit if cost is None else cost, NOW_US + at)


def _ring(limit: int, cost: int, at: int) -> Call:
    return "rolling_ring", (limit, 60_000, 0, cost, NOW_US + at)


def _lease(number: int, lease_ms: int, at: int) -> Call:
    return "concurrent", ("acquire", 10**9, lease_ms, f"id{number}", NOW_US + at)


_LEASES = tuple(_lease(number, DAY_US // 1000, 0) for number in range(LEASES))
CASES = (
    Case(name="a log of 10,000 at once", before=(), last=_log(10_000, 0)),
    Case(name="a log of 10,000 for one of 10,000", before=(_log(10_000, 0),), last=_log(10_000, DAY_US)),
    Case(name="a log of 10,000 refunded", before=(_log(10_000, 0),), last=_log(10_000, 0, -10_000)),
    Case(name="a ring of 1,000,000 created", before=(), last=_ring(1_000_000, 1, 0)),
    Case(name="a ring of 1,000,000 filled", before=(), last=_ring(1_000_000, 1_000_000, 0)),
    Case(name="a full ring, limit lowered", before=(_ring(1_000_000, 999_000, 0),), last=_ring(999_999, 1, 1000)),
    Case(
        name="a full ring from its middle, limit raised",
        before=(_ring(999_000, 500_000, 0), _ring(999_000, 999_000, DAY_US)),
        last=_ring(1_000_000, 1, DAY_US + 1000),
    ),
    Case(name="30,000 leases end at once", before=_LEASES, last=_lease(0, 1000, 2 * DAY_US)),
    Case(name="30,000 leases are too long", before=_LEASES, last=_lease(0, 1, 0)),
)


def measure_ms(client: Any, case: Case) -> float:  # noqa: ANN401  the client's commands are untyped
    """Measure a case on an empty server."""
    sha1s = {script.name: script.sha1 for script in load_release().scripts}

    def play(calls: Sequence[Call]) -> None:
        pipeline = client.pipeline(transaction=False)
        for script, args in calls:
            pipeline.evalsha(sha1s[script], 1, "rl:{worst}", *args)
        pipeline.execute()

    client.flushall()
    play(case.before)
    return _spent_ms(client, lambda: play([case.last]))


def _spent_ms(client: Any, work: Callable[[], None]) -> float:  # noqa: ANN401
    def used_ms() -> float:
        info = client.info("cpu")
        return 1000 * (float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"]))

    before = used_ms()
    work()
    return used_ms() - before


def main() -> None:
    """Print the median and the maximum of each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with scratch_server() as server:
        for script in load_release().scripts:
            server.client.script_load(script.source.decode("ascii"))
        rows = []
        for case in CASES:
            took = sorted(measure_ms(server.client, case) for _ in range(rounds))
            rows.append((case.name, "ms", f"{took[rounds // 2]:.1f}", f"{took[-1]:.1f}"))
    print(render_table(("call", "unit", "median", "most"), rows))


if __name__ == "__main__":
    main()
