"""rlctl bench: measures speed and accuracy of the scripts on a fleet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from rlctl.bench.accuracy import attackable
from rlctl.bench.claims import Accuracy
from rlctl.bench.figures import SpeedRow
from rlctl.bench.run import (
    AccuracyReport,
    BenchOptions,
    ScaleReport,
    run_accuracy_bench,
    run_scale_bench,
    run_speed_bench,
    scaled,
)
from rlctl.bench.scaling import CLAIM, Scaling
from rlctl.bench.speed import PATTERNS, SpeedReport
from rlctl.bench.subjects import bench_cases
from rlctl.cli.app import App, with_app
from rlctl.cli.help import HelpCommand
from rlctl.cli.opened import opened
from rlctl.cli.options import Duration
from rlctl.errors import Exit, NotFound, UsageFault
from rlctl.execute.progress import Progress
from rlctl.execute.session import FleetSession
from rlctl.execute.stop import StopFlag
from rlctl.topology.model import Kind

Report = SpeedReport | AccuracyReport | ScaleReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBench:
    """A description of a bench for the operator, and the function that runs the bench."""

    description: str
    run: Callable[[FleetSession, BenchOptions, Progress, StopFlag], Report]


@click.command(cls=HelpCommand)
@click.option(
    "--script", "scripts", multiple=True, metavar="NAME", help="Name of a script to measure; may be repeated [all]."
)
@click.option(
    "--accuracy", is_flag=True, help="Measure accuracy instead: attack window boundaries with an injected clock."
)
@click.option("--scale", is_flag=True, help="Measure scaling instead: load 1, 2, ... all shards [script gcra].")
@click.option(
    "--duration", type=Duration(), default="200ms", show_default=True, help="Time to measure each row of the table."
)
@click.option("--dry-run", is_flag=True, help="Show what would be measured, and exit 10.")
@click.option("--yes", is_flag=True, help="Agree in advance to the load on the fleet.")
@with_app
def bench(
    app: App, scripts: tuple[str, ...], accuracy: bool, scale: bool, duration: float, dry_run: bool, yes: bool
) -> int:
    """Measure speed and accuracy of the scripts on this fleet.

    One client calls each script as user limiter: one call at a time and pipelined, on one key and on many keys. It
    also measures INCR for comparison. The bench creates its own keys and removes them at the end.

    SERVER US is the time of a call inside the server (INFO commandstats). OF INCR is the script's rate divided by the
    rate of INCR.

    Examples:
      rlctl bench --yes
      rlctl bench --script gcra --script token_bucket --duration 1s
      rlctl bench --accuracy --yes
      rlctl bench --scale --yes
    """
    if accuracy and scale:
        raise UsageFault("--accuracy and --scale exclude each other", hint="see `rlctl bench --help`")
    topology = app.topology()
    wanted = BenchOptions(scripts=scripts, duration_s=duration, argv=app.argv)
    stop = StopFlag()
    with opened(app) as fleet:
        if fleet.is_new:
            raise NotFound(f"fleet {topology.name} is not deployed", hint="run `rlctl deploy`")
        planned = _plan(fleet, wanted, accuracy=accuracy, scale=scale)
        if dry_run:
            _show_plan(app, topology.name, planned)
            return Exit.CHANGES
        app.agree(f"{topology.name}: {planned.description}?", yes=yes)
        app.home.open_for_writing()
        with stop.armed():
            report = planned.run(fleet, wanted, app.output, stop)
    _show(app, report)
    return Exit.OK


def _plan(fleet: FleetSession, wanted: BenchOptions, *, accuracy: bool, scale: bool) -> PlannedBench:
    """Choose the bench. Raises UsageFault or NotFound for a script or fleet that the bench cannot measure."""
    if accuracy:
        names = ", ".join(script.name for script in attackable(fleet.release, wanted.scripts))
        return PlannedBench(description=f"attack {names} on scratch keys", run=run_accuracy_bench)
    if scale:
        if fleet.topology.kind is not Kind.CLUSTER:
            raise UsageFault("--scale needs several shards; a Sentinel fleet has one", hint="leave out --scale")
        levels = len(scaled(fleet, wanted.scripts)) * fleet.topology.cluster.shards
        return PlannedBench(description=_load(levels, wanted.duration_s), run=run_scale_bench)
    rows = len(bench_cases(fleet.release, wanted.scripts)) * len(PATTERNS)
    return PlannedBench(description=_load(rows, wanted.duration_s), run=run_speed_bench)


def _load(rows: int, duration_s: float) -> str:
    return f"load its primaries for about {max(1, round(rows * duration_s))} s, on scratch keys"


def _show_plan(app: App, name: str, planned: PlannedBench) -> None:
    if app.output.as_json:
        app.output.result({"schema": "rlctl.bench-plan/1", "name": name, "plan": planned.description})
    else:
        app.output.text(f"{name}: {planned.description}")


def _show(app: App, report: Report) -> None:
    if app.output.as_json:
        app.output.result(report.to_json())
        return
    match report:
        case SpeedReport():
            _show_speed(app, report)
        case AccuracyReport():
            _show_accuracy(app, report.rows)
        case ScaleReport():
            for one in report.scripts:
                _show_scaling(app, one)


def _show_speed(app: App, report: SpeedReport) -> None:
    title = f"{report.name}: {report.server}, {report.primaries} primaries, release {report.release}"
    headers = ["SCRIPT", "ANSWER", "KEYS", "DEPTH", "PER S", "P50 US", "P99 US", "SERVER US", "OF INCR"]
    app.output.table(headers, [_speed_row(report, row) for row in report.rows], title=title)
    for note in report.notes:
        app.output.line(f"warning {note}")


def _speed_row(report: SpeedReport, row: SpeedRow) -> list[str]:
    keys = row.pattern.keys
    return [
        row.script,
        row.answer or "-",
        str(keys if keys == 1 else keys * report.primaries),
        str(row.pattern.depth),
        f"{row.per_s:,.0f}",
        _figure(row.p50_us, ".0f"),
        _figure(row.p99_us, ".0f"),
        _figure(row.server_us, ".2f"),
        _figure(row.of_incr, ".0%"),
    ]


def _show_accuracy(app: App, rows: Sequence[Accuracy]) -> None:
    title = f"most requests admitted in any trailing window, of {rows[0].attacks} attacks; buckets start full"
    headers = ["SCRIPT", "LIMIT", "WORST WINDOW", "OVER", "PUBLISHED", "VERDICT"]
    cells = [
        [row.script, str(row.limit), str(row.worst.admitted), f"{row.over_percent:.0f} %", row.claim.text, row.verdict]
        for row in rows
    ]
    app.output.table(headers, cells, title=title)


def _show_scaling(app: App, scaling: Scaling) -> None:
    headers = ["SHARDS", "PER S", "OF LINEAR", "CLIENT CPU", "PRIMARIES CPU", "MACHINE CPU", "BOTTLENECK"]
    rows = [
        [
            str(level.shards),
            f"{level.decisions_per_s:,.0f}",
            f"{scaling.of_linear(level):.0%}",
            f"{level.client_cpu:.0%}",
            f"{level.servers_cpu:.0%}",
            _figure(level.machine_cpu, ".0%"),
            level.bottleneck,
        ]
        for level in scaling.levels
    ]
    app.output.table(headers, rows, title=f"{scaling.script}, one client; published: {CLAIM}")


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
