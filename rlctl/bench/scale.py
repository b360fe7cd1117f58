"""Measures the first 1, 2, ... N shards of a cluster with the same load on each shard."""

from collections.abc import Sequence
from statistics import median

from rlctl.bench.figures import Pattern
from rlctl.bench.measure import DEPTH, LoadGenerator
from rlctl.bench.scaling import Scaling, ScalingLevel
from rlctl.bench.session import BenchPrimary, Session, now_s
from rlctl.bench.speed import MANY, ROUNDS
from rlctl.bench.stats import middle
from rlctl.bench.subjects import BenchCase
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.system.host import busy_s, processors


def run_scale(
    session: Session, case: BenchCase, duration_s: float, progress: Progress, stop: StopFlag, *, one_machine: bool
) -> Scaling:
    """Measure all levels in rounds; each level takes `duration_s` in total."""
    counts = range(1, len(session.primaries) + 1)
    found: dict[int, list[ScalingLevel]] = {count: [] for count in counts}
    LoadGenerator(session, session.primaries, stop).fill(case, MANY)
    for turn in range(1, ROUNDS + 1):
        progress.note(f"{case.name}: round {turn} of {ROUNDS}")
        for count in counts:
            driven = session.primaries[:count]
            load = LoadGenerator(session, driven, stop)
            found[count].append(_level(load, driven, case, duration_s / ROUNDS, one_machine=one_machine))
    return Scaling(script=case.name, levels=tuple(_middle(levels) for levels in found.values()))


def _level(
    load: LoadGenerator, driven: Sequence[BenchPrimary], case: BenchCase, duration_s: float, *, one_machine: bool
) -> ScalingLevel:
    before_s, busy_before_s, began_s = [primary.cpu_s() for primary in driven], busy_s(), now_s()
    run = load.run(case, Pattern(keys=MANY, depth=DEPTH), duration_s)
    elapsed_s, machine_s = now_s() - began_s, busy_s() - busy_before_s
    used_s = [primary.cpu_s() - before for primary, before in zip(driven, before_s, strict=True)]
    return ScalingLevel(
        shards=len(driven),
        decisions_per_s=run.per_s,
        client_cpu=run.client_cpu_s / run.elapsed_s,
        server_cpu=tuple(used / run.elapsed_s for used in used_s),
        machine_cpu=machine_s / elapsed_s / processors() if one_machine else None,
    )


def _middle(levels: Sequence[ScalingLevel]) -> ScalingLevel:
    """The medians of a level over the rounds."""
    return ScalingLevel(
        shards=levels[0].shards,
        decisions_per_s=median(level.decisions_per_s for level in levels),
        client_cpu=median(level.client_cpu for level in levels),
        server_cpu=tuple(median(shares) for shares in zip(*(level.server_cpu for level in levels), strict=True)),
        machine_cpu=middle(level.machine_cpu for level in levels),
    )
