"""Drives the first 1, 2, ... N shards of a cluster with the same load a shard."""

from collections.abc import Sequence
from statistics import median

from rlctl.bench.figures import Pattern
from rlctl.bench.measure import DEPTH, Load
from rlctl.bench.scaling import Level, Scaling
from rlctl.bench.session import Primary, Session, now_s
from rlctl.bench.speed import MANY, ROUNDS
from rlctl.bench.stats import middle
from rlctl.bench.subjects import Subject
from rlctl.execute.progress import Progress
from rlctl.execute.stop import StopFlag
from rlctl.system.host import busy_s, processors


def run_scale(
    session: Session, subject: Subject, duration_s: float, progress: Progress, stop: StopFlag, *, one_machine: bool
) -> Scaling:
    """All levels, round by round; each takes `duration_s` in all."""
    counts = range(1, len(session.primaries) + 1)
    found: dict[int, list[Level]] = {count: [] for count in counts}
    Load(session, session.primaries, stop).fill(subject, MANY)
    for turn in range(1, ROUNDS + 1):
        progress.note(f"{subject.name}: round {turn} of {ROUNDS}")
        for count in counts:
            driven = session.primaries[:count]
            load = Load(session, driven, stop)
            found[count].append(_level(load, driven, subject, duration_s / ROUNDS, one_machine=one_machine))
    return Scaling(script=subject.name, levels=tuple(_middle(levels) for levels in found.values()))


def _level(load: Load, driven: Sequence[Primary], subject: Subject, duration_s: float, *, one_machine: bool) -> Level:
    before_s, busy_before_s, began_s = [primary.cpu_s() for primary in driven], busy_s(), now_s()
    run = load.run(subject, Pattern(keys=MANY, depth=DEPTH), duration_s)
    elapsed_s, machine_s = now_s() - began_s, busy_s() - busy_before_s
    used_s = [primary.cpu_s() - before for primary, before in zip(driven, before_s, strict=True)]
    return Level(
        shards=len(driven),
        decisions_per_s=run.per_s,
        client_cpu=run.client_cpu_s / run.elapsed_s,
        server_cpu=tuple(used / run.elapsed_s for used in used_s),
        machine_cpu=machine_s / elapsed_s / processors() if one_machine else None,
    )


def _middle(levels: Sequence[Level]) -> Level:
    """Medians over the rounds."""
    return Level(
        shards=levels[0].shards,
        decisions_per_s=median(level.decisions_per_s for level in levels),
        client_cpu=median(level.client_cpu for level in levels),
        server_cpu=tuple(median(shares) for shares in zip(*(level.server_cpu for level in levels), strict=True)),
        machine_cpu=middle(level.machine_cpu for level in levels),
    )
