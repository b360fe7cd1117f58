"""The cost and the accuracy of `capacity measure`: a sample of a million keys compared with a full scan."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from table import render_table

from rlctl.capacity.layout.allocator import classes_of
from rlctl.capacity.measure.estimate import RuleRow, rows_of
from rlctl.capacity.measure.sampled import RuleName, SampledServer, name_of
from rlctl.capacity.measure.sampling import KeySampler
from rlctl.capacity.request import ServerVersion
from rlctl.observe.info import ServerInfo
from rlctl.observe.parse import required
from rlctl.scripts.loader import load_scripts
from rlctl.scripts.release import load_release
from rlctl.system.clock import SystemClock
from rlctl.system.process import ProcessRunner
from rlctl.system.redis import NodeLink
from rlctl.system.scratch_server import scratch_server
from rlctl.targets.server_program import find_any_server

GOAL_ERROR, GOAL_SHARE = 0.05, 0.01
BATCH = 1_000
BUDGET_S, IDLE_S = 10.0, 5.0
HOUR_MS = 3_600_000
NOW_US = 1_791_504_000_000_000
# Percent of the keys, script, and the arguments of the call for a user; logs differ in length.
RULES: dict[str, tuple[int, str, Callable[[int], tuple[int, ...]]]] = {
    "api": (50, "sliding_counter", lambda _user: (1000, HOUR_MS, 1, NOW_US)),
    "burst": (30, "token_bucket", lambda _user: (10_000, 1, HOUR_MS, 1, NOW_US)),
    "login": (15, "fixed_window", lambda _user: (10, HOUR_MS, 1, NOW_US)),
    "export": (5, "rolling_window", lambda user: (200, HOUR_MS, 0, 1 + user % 40, NOW_US)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Processor time of the server's main thread during a measurement."""

    busy_s: float
    elapsed_s: float

    @property
    def share(self) -> float:
        """The share of one core."""
        return self.busy_s / self.elapsed_s


def calls(keys: int, sha1s: Mapping[str, str], states: Mapping[str, int]) -> Iterator[tuple[object, ...]]:
    """Yield one call for each key."""
    for name, (percent, script, arguments) in RULES.items():
        for user in range(keys * percent // 100):
            key = f"rl:{{user-{user:07d}}}:{name}:{script}:{states[script]}"
            yield ("EVALSHA", sha1s[script], 1, key, *arguments(user))


def fill(link: NodeLink, keys: int) -> dict[str, int]:
    """Fill the server through the real scripts; returns their state formats."""
    release = load_release()
    if problem := load_scripts(link, release.scripts):
        sys.exit(problem)
    states = {script.name: script.state for script in release.scripts}
    pending = calls(keys, {script.name: script.sha1 for script in release.scripts}, states)
    while batch := list(islice(pending, BATCH)):
        link.pipeline(batch)
    return states


def busy_s(link: NodeLink) -> float:
    """Processor time of the main thread since the start of the server."""
    return required(ServerInfo(link.call("INFO", "cpu")).main_thread_cpu_s, "used_cpu_sys_main_thread")


def full_scan(link: NodeLink) -> dict[RuleName, list[int]]:
    """MEMORY USAGE of every key."""
    found: defaultdict[RuleName, list[int]] = defaultdict(list)
    cursor = "0"
    while True:
        cursor, names = link.call("SCAN", cursor, "COUNT", BATCH)
        sizes = link.pipeline([("MEMORY", "USAGE", name) for name in names])
        for name, size in zip(names, sizes, strict=True):
            found[name_of(name)].append(int(str(size)))
        if cursor == "0":
            return found


def rows(sampled: tuple[RuleRow, ...], full: Mapping[RuleName, list[int]]) -> Iterator[list[str]]:
    """Yield a row for each rule: sample with confidence interval, full scan, and error."""
    for row in sampled:
        sizes = full[row.name]
        of_bytes, of_keys = row.memory_usage / fmean(sizes) - 1, row.keys.value / len(sizes) - 1
        is_met = abs(of_bytes) <= GOAL_ERROR
        yield [
            str(row.name.rule),
            str(row.name.algorithm),
            str(row.sampled),
            f"{row.memory_usage:.1f} +-{row.bytes.error if row.bytes else 0:.1f}",
            f"{fmean(sizes):.1f}",
            f"{of_bytes:+.2%}",
            f"{row.keys.value:.0f} +-{row.keys.error:.0f}",
            f"{of_keys:+.2%}",
            "met" if is_met else "MISSED",
        ]


def measure(keys: int, sample: int) -> str:
    """Fill a server, sample it, scan it, and compare."""
    clock = SystemClock()
    program = find_any_server(ProcessRunner())
    with scratch_server(program.path, {}, clock) as scratch:
        link, reader = scratch.link(), scratch.link()
        states = fill(link, keys)
        server = SampledServer(
            version=ServerVersion.of(program.flavor, program.version),
            allocator=classes_of(str(link.call("MEMORY", "MALLOC-STATS"))),
            policy=None,
            keys=int(link.call("DBSIZE")),
            slots=None,
            states=states,
        )
        before, started_s = busy_s(link), clock.monotonic()
        clock.sleep(IDLE_S)
        idle = Cost(busy_s=busy_s(link) - before, elapsed_s=clock.monotonic() - started_s)
        before, started_s = busy_s(link), clock.monotonic()
        sampler = KeySampler(link=reader, clock=clock, sample=sample, ends_s=started_s + BUDGET_S)
        seen = sampler.run(server, ())
        cost = Cost(busy_s=busy_s(link) - before, elapsed_s=clock.monotonic() - started_s)
        before, started_s = busy_s(link), clock.monotonic()
        full = full_scan(reader)
        whole = Cost(busy_s=busy_s(link) - before, elapsed_s=clock.monotonic() - started_s)
        link.close()
        reader.close()
    sampled = rows_of([seen], is_complete=True)
    total = sum(row.keys.value * row.memory_usage for row in sampled) / sum(map(sum, full.values())) - 1
    header = ["rule", "algorithm", "keys seen", "MEMORY USAGE", "full scan", "off", "keys", "off", "verdict"]
    added = cost.share - idle.share
    verdict = "met" if added < GOAL_SHARE else "MISSED"
    parts = [
        f"{render_table(header, list(rows(sampled, full)))}\n",
        f"{server.keys} keys; {seen.looked_at} names, {len(seen.keys)} keys sampled; error of all bytes {total:+.2%}",
        f"main thread: {cost.busy_s * 1000:.0f} ms in {cost.elapsed_s:.1f} s, {cost.share:.2%} of a core",
        f"idle {idle.share:.2%}, so sampling adds {added:.2%} (goal < {GOAL_SHARE:.0%}: {verdict})",
        f"a full scan takes {whole.busy_s * 1000:.0f} ms, {whole.share:.0%} of a core while it lasts",
    ]
    return "\n".join(parts)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=1_000)
    args = parser.parse_args()
    print(measure(args.keys, args.sample))
    return 0


if __name__ == "__main__":
    sys.exit(main())
